"""The next run in a lab undoes the profile of a killed run."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.device.counters.watch import DutWatch
from emulator.device.lab.state import Owner
from emulator.device.profile.profile import Schedule
from emulator.errors import PlanError
from tests.support.labs import RaisedLab, raised
from tests.support.profiles import TWO_HOSTS, profile_of

pytestmark = pytest.mark.usefixtures("lab_host")
RULES = '  - {drop: {every: 2}}\n  - {shape: {rate: 50%}}\n  - {port: "sw0:p1", state: down}\n'


@pytest.fixture
def lab(lab_host: None, tmp_path: Path) -> Iterator[RaisedLab]:
    with raised(tmp_path, TWO_HOSTS.replace("KIND", "router").replace("RATE", ", rate: 100Mbit")) as one:
        yield one


def seen(lab: RaisedLab) -> str:
    """The state of the switch that a profile can change."""
    looks = (("nft", "list", "ruleset"), ("tc", "qdisc"), ("ip", "route"), ("ip", "neighbour"), ("ip", "-br", "link"))
    words = ([*lab.exec_prefix("sw0"), *look] for look in looks)
    return "\n".join(subprocess.run(one, capture_output=True, text=True, check=True).stdout for one in words)


def watch(lab: RaisedLab, folder: Path, rules: str | None) -> DutWatch:
    profile = profile_of(folder, rules) if rules else None
    return DutWatch([], topology=lab.topology, lab=lab.state, schedule=Schedule(profile), store=lab.store)


def leave(lab: RaisedLab, folder: Path, *, owner: Owner) -> None:
    """Apply the rules, and leave them as a killed run does."""
    watch(lab, folder, RULES).__enter__()._sampler.stop()  # type: ignore[union-attr]
    path = lab.store.folder(lab.state.lab_id) / "profile.json"
    document = json.loads(path.read_text()) | {"owner": [owner.pid, owner.began]}
    path.write_text(json.dumps(document))


def test_the_next_run_undoes_the_changes_of_a_killed_one(lab: RaisedLab, tmp_path: Path) -> None:
    before = seen(lab)
    leave(lab, tmp_path, owner=Owner(2**22, 1))
    assert seen(lab) != before
    with watch(lab, tmp_path, None):
        after = seen(lab)
    assert sorted(after.splitlines()) == sorted(before.splitlines())


def test_the_profile_of_a_running_run_stays(lab: RaisedLab, tmp_path: Path) -> None:
    leave(lab, tmp_path, owner=Owner(1, int(Path("/proc/1/stat").read_text().rpartition(")")[2].split()[19])))
    during = seen(lab)
    with pytest.raises(PlanError, match="process 1 is applying profile profile to lab"), watch(lab, tmp_path, None):
        pass
    assert seen(lab) == during
