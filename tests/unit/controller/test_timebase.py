"""The time axis of a run whose agents have clocks of their own."""

from __future__ import annotations

from pathlib import Path

from emulator.controller.clocks.clock_offset import ClockEstimate, Offset, difference_error_ns
from emulator.controller.recording.timebase import ONE_CLOCK, SEVERAL_CLOCKS, describe_clock, settle_stamps
from emulator.controller.run_plan import RunOutcome
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from tests.support.runs import manifest


def estimate(offset_ns: int, *, error_ns: int) -> ClockEstimate:
    return ClockEstimate((Offset(0, offset_ns, error_ns),), error_ns)


def test_agents_that_share_the_controllers_clock_need_no_correction() -> None:
    assert describe_clock({}) == ONE_CLOCK


def test_the_largest_offset_in_either_direction_and_the_error_of_a_difference_are_reported() -> None:
    found = describe_clock({"a": estimate(500, error_ns=20), "b": estimate(-9000, error_ns=30)})
    assert (found.source, found.offset_ns) == (SEVERAL_CLOCKS, -9000)
    assert found.error_ns == difference_error_ns([20, 30])


def test_each_end_of_a_step_is_put_right_by_the_clock_of_its_rank(tmp_path: Path) -> None:
    outcome = RunOutcome(clocks={"far": estimate(1000, error_ns=5)}, taken_off_ns={"far": {0: 900}})
    stamps = {"start_ns": 10_000, "post_ns": 10_001, "acknowledged_ns": None, "arrival_ns": 10_003}
    with RunWriter(tmp_path / "run", manifest()) as writer:
        for src, dst in ((0, 1), (1, 0)):
            writer.add_steps({"iteration": 0, "instance": 0, "lane": 0, "src": [src], "dst": [dst]} | stamps)
        settle_stamps(writer, outcome, {"near": [0], "far": [1]})
        there, back = writer.run().table(RunTable.STEPS).to_pylist()
    assert [there[name] for name in stamps] == [10_000, 10_001, None, 9_903]
    assert [back[name] for name in stamps] == [9_900, 9_901, None, 10_003]
