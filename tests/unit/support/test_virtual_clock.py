import pytest

from emulator.errors import LocalProtocolError
from tests.support.virtual_clock import VirtualClock


def test_alarms_run_in_order_of_time_and_ties_in_the_order_they_were_set() -> None:
    clock = VirtualClock()
    seen: list[tuple[str, int]] = []
    for name, when in (("late", 30), ("first tie", 20), ("early", 10), ("second tie", 20)):
        clock.call_at(when, lambda name=name: seen.append((name, clock.now())))
    clock.run()
    assert seen == [("early", 10), ("first tie", 20), ("second tie", 20), ("late", 30)]


def test_run_until_a_time_stops_there_and_leaves_later_alarms() -> None:
    clock = VirtualClock()
    seen: list[int] = []
    for when in (10, 20, 21):
        clock.call_at(when, lambda: seen.append(clock.now()))
    clock.run(20)
    assert (seen, clock.now()) == ([10, 20], 20)
    clock.run(20)
    clock.run(15)
    assert (seen, clock.now()) == ([10, 20], 20)
    clock.run()
    assert seen == [10, 20, 21]


def test_an_alarm_for_the_past_runs_at_the_present_time_after_those_already_due() -> None:
    clock = VirtualClock(start=100)
    seen: list[tuple[str, int]] = []
    clock.call_at(100, lambda: seen.append(("due", clock.now())))
    clock.call_at(3, lambda: seen.append(("past", clock.now())))
    clock.run()
    assert seen == [("due", 100), ("past", 100)]


def test_alarms_set_by_alarms_run_too() -> None:
    clock = VirtualClock()
    ticks: list[int] = []

    def tick() -> None:
        ticks.append(clock.now())
        if len(ticks) < 4:
            clock.call_at(clock.now() + 5, tick)

    clock.call_at(5, tick)
    clock.run()
    assert ticks == [5, 10, 15, 20]


def test_run_until_a_condition_stops_at_once_and_raises_when_nothing_is_left() -> None:
    clock = VirtualClock()
    seen: list[int] = []
    for when in (10, 20, 30):
        clock.call_at(when, lambda: seen.append(clock.now()))
    clock.run_until(lambda: len(seen) == 2)
    assert clock.now() == 20
    with pytest.raises(LocalProtocolError, match="after 30 ns"):
        clock.run_until(lambda: len(seen) == 4)
