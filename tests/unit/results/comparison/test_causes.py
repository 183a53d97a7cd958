from dataclasses import replace
from pathlib import Path

from emulator.control.observations import FlowCounters
from emulator.results.comparison.causes import Cause, causes, counted, most_telling
from emulator.results.comparison.groups import RunGroup
from tests.support.recorded import recorded
from tests.support.runs import collective, write_run


def group(name: str, *counts: dict[str, int]) -> RunGroup:
    return RunGroup(name, [replace(run, counted=one) for run, one in zip(recorded("roce"), counts, strict=False)])


def test_flow_counters_of_a_run_are_counted_by_name(tmp_path: Path) -> None:
    flows = [FlowCounters(0, 1, packets=10, retransmits=3, duplicates=2), FlowCounters(1, 0, packets=9, retransmits=1)]
    run = write_run(tmp_path / "run", collective([0, 0], [5, 5]), flows=flows)
    assert counted(run) == {"retransmissions": 4, "spurious_retransmissions": 2}


def test_a_counter_that_tells_the_groups_apart_is_the_most_telling() -> None:
    baseline = group("a", {"retransmissions": 0, "timeouts": 1}, {"retransmissions": 4, "timeouts": 3})
    other = group("b", {"retransmissions": 5, "timeouts": 2}, {"retransmissions": 9, "timeouts": 2})
    found = causes(baseline, other)
    assert found == [Cause("retransmissions", 2, 7, is_apart=True), Cause("timeouts", 2, 2, is_apart=False)]
    assert most_telling(found) == found[0]


def test_the_device_comes_first() -> None:
    baseline = group("a", {"device_drops": 0, "retransmissions": 0})
    found = causes(baseline, group("b", {"device_drops": 7, "retransmissions": 7}))
    assert [one.metric for one in found] == ["device_drops", "retransmissions"]


def test_what_is_0_everywhere_is_not_listed_and_what_nobody_counts_is_unknown() -> None:
    assert causes(group("a", {"timeouts": 0}), group("b", {"timeouts": 0})) == []
    (one,) = causes(group("a", {}), group("b", {"timeouts": 2}))
    assert (one.baseline, one.other, one.is_apart) == (None, 2, False)
    assert most_telling([one]) is None
