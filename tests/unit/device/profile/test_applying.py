"""A profile is applied and undone in the right order, whatever happens in between. tests/lab has the kernel's part."""

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import cast

import pytest

from emulator.device.lab.link_news import LinkNews
from emulator.device.lab.state import Owner
from emulator.device.profile.applying import AppliedProfile, Scenario
from emulator.device.profile.changes import Change, plan_changes
from emulator.device.profile.profile import Moment, PlannedEvent, PortDown, Schedule
from emulator.errors import HostError, PlanError
from emulator.host.tools import CommandBatch, CommandHost, on
from emulator.topology.network import End
from emulator.units import NS_PER_S
from tests.support.command import wait_for
from tests.support.labs import pretended
from tests.support.profiles import changes, profile_of, two_hosts

RULES = ("{name: lost, drop: {every: 2}}", '{name: slow, shape: {rate: 50%}, port: "sw0:p1"}')


class Host:
    """Records commands, and refuses those with a word.

    Attributes:
        refused: the word.
        watched: a file whose content before each command is in `seen`.
    """

    def __init__(self) -> None:
        self.scripts: list[str] = []
        self.refused: str | None = None
        self.watched: Path | None = None
        self.seen: list[str] = []
        self.stderr = "Error: No such file or directory\n"

    def finish(self, batch: CommandBatch) -> subprocess.CompletedProcess[str]:
        """See `emulator.host.tools.CommandHost`."""
        if self.watched is not None:
            self.seen.append(self.watched.read_text())
        self.scripts.append(f"{' '.join(batch.command)}: {' '.join(' '.join(batch.lines).split())}")
        is_refused = self.refused is not None and self.refused in self.scripts[-1]
        return subprocess.CompletedProcess(batch.command, int(is_refused), "", self.stderr if is_refused else "")

    def done(self, word: str) -> list[str]:
        """Scripts with a word, forgotten afterwards."""
        found = [script for script in self.scripts if word in script]
        self.scripts.clear()
        return found


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host()
    with on(CommandHost(host.finish, lambda tool: f"/sbin/{tool}")):
        yield host


@pytest.fixture
def planned(tmp_path: Path) -> list[Change]:
    """A rule that drops frames, and one that shapes a port to half its 100 Mbit/s."""
    return changes(tmp_path, *RULES)


def applied(folder: Path, planned: Sequence[Change]) -> AppliedProfile:
    return AppliedProfile("fw-x", planned, design=two_hosts(folder), folder=folder)


def test_nothing_is_changed_before_a_rule_starts(host: Host, tmp_path: Path, planned: list[Change]) -> None:
    with applied(tmp_path, planned):
        (checked,) = host.scripts
        assert "nft --check" in checked


def test_a_profile_is_undone_in_reverse_order(host: Host, tmp_path: Path, planned: list[Change]) -> None:
    lost, slow = planned
    with applied(tmp_path, planned) as profile:
        profile.start(lost)
        profile.start(slow)
        host.scripts.clear()
    restored, removed, cleaned = host.scripts
    assert "tbf rate 100000000bit" in restored
    assert "delete chain bridge charkha rule_0" in removed
    assert "delete table bridge charkha" in cleaned


def test_a_rule_that_has_ended_is_not_undone_again(host: Host, tmp_path: Path, planned: list[Change]) -> None:
    _, slow = planned
    with applied(tmp_path, planned) as profile:
        profile.start(slow)
        profile.stop(slow)
        host.scripts.clear()
    assert host.done("tbf") == []


def test_commands_that_undo_are_on_disk_before_a_change_is_made(
    host: Host, tmp_path: Path, planned: list[Change]
) -> None:
    with applied(tmp_path, planned) as profile:
        host.watched = tmp_path / "profile.json"
        profile.start(planned[1])
        document = json.loads(host.seen[0])
    assert document["profile"] == "fw-x"
    assert "tbf rate 100000000bit" in str(document["stops"])
    assert not (tmp_path / "profile.json").exists()


def test_a_change_that_fails_half_way_is_undone(host: Host, tmp_path: Path, planned: list[Change]) -> None:
    host.refused = "tbf rate 50000000bit"
    message = r"rule 'slow' cannot be applied at sw0 \(shape to 50 % of the port's rate\): Error: No such file"
    with pytest.raises(HostError, match=message), applied(tmp_path, planned) as profile:
        profile.start(planned[1])
    assert len(host.done("tbf rate 100000000bit")) == 1


def test_a_change_that_the_kernel_refuses_is_found_before_the_run(
    host: Host, tmp_path: Path, planned: list[Change]
) -> None:
    host.refused = "--check"
    with pytest.raises(HostError, match="rule 'lost' cannot be applied at sw0"), applied(tmp_path, planned):
        pass
    assert host.done("delete table bridge charkha") != []
    assert not (tmp_path / "profile.json").exists()


def test_a_kernel_without_netem_is_named_with_the_command_that_loads_it(host: Host, tmp_path: Path) -> None:
    host.refused, host.stderr = "netem", "Error: Specified qdisc kind is unknown.\n"
    late = changes(tmp_path, "{name: late, delay: {time: 1ms}}")
    with pytest.raises(HostError, match=r"this kernel has no netem.*modprobe sch_netem"), applied(tmp_path, late):
        pass


def test_a_tool_that_says_nothing_is_quoted_as_such(host: Host, tmp_path: Path, planned: list[Change]) -> None:
    host.refused, host.stderr = "tbf", "\n"
    with pytest.raises(HostError, match=r"no reason given$"), applied(tmp_path, planned) as profile:
        profile.start(planned[1])


def leave(folder: Path, **changed: object) -> None:
    """A file as a killed run leaves it."""
    stops = [[["tc", "-batch", "-"], ["qdisc del dev p1 root"]]]
    document = {"profile": "fw-y", "owner": [2**22 + 1, 5], "stops": stops} | changed
    (folder / "profile.json").write_text(json.dumps(document))


def test_what_a_killed_run_left_is_undone_even_by_a_run_without_a_profile(host: Host, tmp_path: Path) -> None:
    leave(tmp_path)
    with applied(tmp_path, []):
        undone, looked, cleaned = host.scripts
        assert looked.startswith("ip -n charkha-test-sw0 -json link"), (
            "to give a router the routes of ports that came up"
        )
        assert undone == "tc -batch -: qdisc del dev p1 root"
        assert "delete table netdev charkha" in cleaned
    assert not (tmp_path / "profile.json").exists()


def test_the_profile_of_a_run_that_goes_on_is_left_alone(
    host: Host, tmp_path: Path, planned: list[Change], monkeypatch: pytest.MonkeyPatch
) -> None:
    me = Owner.me()
    leave(tmp_path, owner=[me.pid, me.began])
    monkeypatch.setattr(Owner, "me", lambda: Owner(0, 0))
    with (
        pytest.raises(PlanError, match=f"process {me.pid} is applying profile fw-y to lab test"),
        applied(tmp_path, planned),
    ):
        pass
    assert host.scripts == []
    assert (tmp_path / "profile.json").exists()


@pytest.mark.parametrize("text", ["", "{}", '{"owner": 3, "stops": []}', "[]"])
def test_a_damaged_file_of_a_killed_run_is_refused_with_the_way_out(host: Host, tmp_path: Path, text: str) -> None:
    (tmp_path / "profile.json").write_text(text)
    with (
        pytest.raises(HostError, match=r"profile\.json cannot be read: run `charkha lab down test`"),
        applied(tmp_path, []),
    ):
        pass


def test_a_missing_tool_is_named_with_its_package(tmp_path: Path, planned: list[Change]) -> None:
    problem = "nft is missing on this host: apt-get install nftables"
    with pretended(missing=("nft",)), pytest.raises(HostError, match=problem):
        applied(tmp_path, planned).__enter__()


class Links(LinkNews):
    """Takes links up and down at once."""

    def __init__(self) -> None:
        super().__init__([])
        self.done: list[tuple[str, list[str], bool]] = []

    def set(self, node: str, devices: Sequence[str], *, is_up: bool) -> int | None:
        self.done.append((node, list(devices), is_up))
        return 7


def test_a_link_goes_down_without_a_command_and_comes_back_however_the_run_ends(host: Host, tmp_path: Path) -> None:
    cuts = changes(tmp_path, '{name: cut, state: down, port: "sw0:p1", start: 1}')
    links = Links()
    with AppliedProfile("events", cuts, design=two_hosts(tmp_path), folder=tmp_path, links=links) as profile:
        assert profile.start(cuts[0]) == 7
        document = json.loads((tmp_path / "profile.json").read_text())
        assert links.done == [("sw0", [cuts[0].ports[0].device], False)]
        assert host.done("down") == []
    assert "up" in str(document["stops"])
    assert len(host.done("link set dev")) == 1


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
    changes = plan_changes(Schedule(profile), two_hosts(folder), ["sw0"], frame_bytes=1250)
    return Scenario(cast(AppliedProfile, applied), changes, clock_ns=lambda: next(ticks))


SCENARIO_RULES = (
    "{name: always, drop: {every: 2}}",
    "{name: late, drop: {every: 3}, start: 0, end: 1.0e-9}",
    "{name: brief, drop: {every: 4}, end: 1.0e-6}",
    "{name: tomorrow, drop: {every: 5}, start: 86400}",
)


def test_rules_start_and_end_in_the_order_of_their_times(tmp_path: Path) -> None:
    applied = Applied()
    keeping = scenario(tmp_path, applied, *SCENARIO_RULES)
    keeping.prepare()
    assert applied.done == [("start", "always"), ("start", "brief")]
    keeping.begin(0)
    wait_for(lambda: len(applied.done) >= 5 or None)
    keeping.end()
    assert applied.done[2:] == [("start", "late"), ("stop", "late"), ("stop", "brief")]
    always, late, brief, tomorrow = keeping.timings
    begun = keeping.begun_ns
    assert None not in (always.started_ns, late.started_ns, late.ended_ns, brief.ended_ns)
    assert always.started_ns < begun
    assert (always.ended_ns, tomorrow.started_ns) == (None, None)


def test_a_change_that_fails_during_the_run_is_reported(tmp_path: Path) -> None:
    keeping = scenario(tmp_path, Applied(refused="late"), *SCENARIO_RULES)
    keeping.prepare()
    keeping.begin(0)
    wait_for(lambda: keeping.failure)
    keeping.end()
    assert str(keeping.failure) == "late cannot be applied"


def test_a_run_without_timed_rules_needs_no_thread(tmp_path: Path) -> None:
    applied = Applied()
    keeping = scenario(tmp_path, applied, SCENARIO_RULES[0])
    keeping.prepare()
    keeping.begin(0)
    keeping.end()
    assert applied.done == [("start", "always")]


def test_what_counts_from_an_iteration_waits_for_it(tmp_path: Path) -> None:
    applied = Applied()
    keeping = events_of(tmp_path, applied, cut(Moment(0, 3), Moment(1e-9, 3)), cut(Moment(0, 4)))
    keeping.begin(-1)
    keeping.begin(3)
    wait_for(lambda: len(applied.done) >= 2 or None)
    assert applied.done == [("start", "events[0]"), ("stop", "events[0]")]
    keeping.end()
    assert [one.started_ns is None for one in keeping.timings] == [False, True]
    assert keeping.planned_ns(Moment(0, 4)) is None


def test_a_change_that_begins_late_lasts_as_long_as_planned(tmp_path: Path) -> None:
    now = [0]
    applied = Applied()
    keeping = events_of(tmp_path, applied, cut(Moment(1), Moment(3)), clock_ns=lambda: now[0])
    keeping.begin(0)
    now[0] = 4 * NS_PER_S  # a busy host
    keeping.begin(1)
    wait_for(lambda: applied.done or None)
    now[0] = 5 * NS_PER_S
    keeping.begin(2)
    assert applied.done == [("start", "events[0]")]
    now[0] = 6 * NS_PER_S
    keeping.begin(3)
    wait_for(lambda: len(applied.done) >= 2 or None)
    keeping.end()
    [timing] = keeping.timings
    assert (timing.start.planned_ns, timing.start.asked_ns) == (1 * NS_PER_S, 4 * NS_PER_S)
    assert (timing.end.planned_ns, timing.end.asked_ns) == (3 * NS_PER_S, 6 * NS_PER_S)


def test_the_later_of_two_changes_of_a_port_ends_the_earlier_one(tmp_path: Path) -> None:
    applied = Applied()
    keeping = events_of(tmp_path, applied, cut(Moment(0, 3), Moment(86_400, 3)), cut(Moment(0, 4)))
    keeping.begin(3)
    wait_for(lambda: applied.done or None)
    keeping.begin(4)
    wait_for(lambda: len(applied.done) >= 3 or None)
    keeping.end()
    assert applied.done == [("start", "events[0]"), ("stop", "events[0]"), ("start", "events[1]")]


def cut(start: Moment, end: Moment | None = None) -> PlannedEvent:
    return PlannedEvent(start, end, End("sw0", "p1"), PortDown())


def events_of(
    folder: Path, applied: Applied, *events: PlannedEvent, clock_ns: Callable[[], int] | None = None
) -> Scenario:
    ticks = count(1_000, 1)
    changes = plan_changes(Schedule(None, events), two_hosts(folder), ["sw0"], frame_bytes=1250)
    return Scenario(cast(AppliedProfile, applied), changes, clock_ns=clock_ns or (lambda: next(ticks)))
