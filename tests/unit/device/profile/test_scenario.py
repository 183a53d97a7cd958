from itertools import count
from pathlib import Path
from typing import cast

from emulator.device.profile.applying import AppliedProfile
from emulator.device.profile.changes import Change, plan_changes
from emulator.device.profile.scenario import Scenario
from emulator.errors import HostError
from tests.support.command import wait_for
from tests.support.profiles import profile_of, two_hosts


class Applied:
    """Records the changes that are made and undone."""

    def __init__(self, refused: str = "") -> None:
        self.done: list[tuple[str, str]] = []
        self._refused = refused

    def start(self, change: Change) -> None:
        if change.rule.name == self._refused:
            raise HostError(f"{self._refused} cannot be applied")
        self.done.append(("start", change.rule.name))

    def stop(self, change: Change) -> None:
        self.done.append(("stop", change.rule.name))


def scenario(folder: Path, applied: Applied, *rules: str) -> Scenario:
    profile = profile_of(folder, "".join(f"  - {rule}\n" for rule in rules))
    ticks = count(1_000, 1)
    changes = plan_changes(profile, two_hosts(folder), ["sw0"], frame_bytes=1250)
    return Scenario(cast(AppliedProfile, applied), changes, clock_ns=lambda: next(ticks))


RULES = (
    "{name: always, drop: {every: 2}}",
    "{name: late, drop: {every: 3}, start: 0, end: 1.0e-9}",
    "{name: brief, drop: {every: 4}, end: 2.0e-9}",
    "{name: tomorrow, drop: {every: 5}, start: 86400}",
)


def test_rules_start_and_end_in_the_order_of_their_times(tmp_path: Path) -> None:
    applied = Applied()
    keeping = scenario(tmp_path, applied, *RULES)
    keeping.prepare()
    assert applied.done == [("start", "always"), ("start", "brief")]
    keeping.begin()
    wait_for(lambda: len(applied.done) >= 5 or None)
    keeping.end()
    assert applied.done[2:] == [("start", "late"), ("stop", "late"), ("stop", "brief")]
    always, late, brief, tomorrow = keeping.timings
    begun = keeping.begun_ns
    assert begun is not None
    assert None not in (always.started_ns, late.started_ns, late.ended_ns, brief.ended_ns)
    assert always.started_ns is not None
    assert always.started_ns < begun
    assert (always.ended_ns, tomorrow.started_ns) == (None, None)


def test_a_change_that_fails_during_the_run_is_reported(tmp_path: Path) -> None:
    keeping = scenario(tmp_path, Applied(refused="late"), *RULES)
    keeping.prepare()
    keeping.begin()
    wait_for(lambda: keeping.failure)
    keeping.end()
    assert str(keeping.failure) == "late cannot be applied"


def test_a_run_without_timed_rules_needs_no_thread(tmp_path: Path) -> None:
    applied = Applied()
    keeping = scenario(tmp_path, applied, RULES[0])
    keeping.prepare()
    keeping.begin()
    keeping.end()
    assert applied.done == [("start", "always")]
