"""The time axis of a run whose agents have clocks of their own."""

from __future__ import annotations

from emulator.controller.clock_offset import ClockEstimate, Offset, difference_error_ns
from emulator.controller.timebase import ONE_CLOCK, SEVERAL_CLOCKS, describe_clock


def estimate(offset_ns: int, *, error_ns: int) -> ClockEstimate:
    return ClockEstimate((Offset(0, offset_ns, error_ns),), error_ns)


def test_agents_that_share_the_controllers_clock_need_no_correction() -> None:
    assert describe_clock({}) == ONE_CLOCK


def test_the_largest_offset_in_either_direction_and_the_error_of_a_difference_are_reported() -> None:
    found = describe_clock({"a": estimate(500, error_ns=20), "b": estimate(-9000, error_ns=30)})
    assert (found.source, found.offset_ns) == (SEVERAL_CLOCKS, -9000)
    assert found.error_ns == difference_error_ns([20, 30])
