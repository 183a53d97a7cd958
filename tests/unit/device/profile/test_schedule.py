"""The rules of a profile and of events in one schedule."""

from pathlib import Path

import pytest

from emulator.device.profile.changes import plan_changes
from emulator.device.profile.profile import Moment, PlannedEvent, PortDown, Schedule
from emulator.errors import EventError, InputError, TopologyError
from emulator.topology.network import End
from tests.support.profiles import profile_of, two_hosts

P1 = End("sw0", "p1")


def down(start: Moment, end: Moment | None = None, port: End = P1) -> PlannedEvent:
    return PlannedEvent(start, end, port, PortDown())


def plan(folder: Path, schedule: Schedule) -> int:
    return len(plan_changes(schedule, two_hosts(folder), ["sw0"], frame_bytes=1250))


def test_a_profile_in_an_event_is_in_force_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    rules = (
        "  - {name: a, drop: {every: 2}}\n"
        "  - {name: b, drop: {every: 3}, start: 1, end: 9}\n"
        "  - {name: c, drop: {every: 4}, start: 5}\n"
    )
    event = PlannedEvent(Moment(2, 7), Moment(6, 7), profile=profile_of(tmp_path, rules))
    found = [(one.name, one.start, one.end) for one in Schedule(None, [event]).rules]
    assert found == [("a", Moment(2, 7), Moment(6, 7)), ("b", Moment(3, 7), Moment(6, 7))]


def test_a_profile_that_comes_twice_has_counters_of_its_own_each_time(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, "  - {name: lost, drop: {every: 2}}\n")
    schedule = Schedule(profile, [PlannedEvent(Moment(1), Moment(2), profile=profile)])
    assert [one.name for one in schedule.rules] == ["lost", "lost, events[0]"]
    changes = plan_changes(schedule, two_hosts(tmp_path), ["sw0"], frame_bytes=1250)
    assert len({one.counter for one in changes}) == 2


def test_an_error_names_the_event_and_the_place_in_its_profile(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, '  - {drop: {every: 2}, port: "sw7:p0"}\n')
    place = r"profile\.yaml:2, rules\[0\]\.port: there is no switch 'sw7'"
    with pytest.raises(EventError, match=rf"events\[0\]\.profile: .*{place}"):
        plan(tmp_path, Schedule(None, [PlannedEvent(Moment(1), None, profile=profile)]))
    with pytest.raises(TopologyError, match=place):
        plan(tmp_path, Schedule(profile))


@pytest.mark.parametrize(
    ("one", "other", "overlaps"),
    [
        ((Moment(1), Moment(2)), (Moment(2), Moment(3)), False),
        ((Moment(1), Moment(2)), (Moment(1.9), Moment(3)), True),
        ((Moment(1), None), (Moment(5), Moment(6)), True),
        ((Moment(1), None), (Moment(0, 4), None), True),  # both last to the end, whichever comes first
        ((Moment(0, 3), Moment(1, 3)), (Moment(0, 4), Moment(1, 4)), False),  # only the run knows
        ((Moment(0, 3), Moment(1, 3)), (Moment(0.5, 3), Moment(2, 3)), True),
    ],
)
def test_two_events_cannot_take_a_port_down_at_once(
    tmp_path: Path, one: tuple[Moment, Moment | None], other: tuple[Moment, Moment | None], *, overlaps: bool
) -> None:
    for events in ([down(*one), down(*other)], [down(*other), down(*one)]):
        if overlaps:
            with pytest.raises(
                InputError, match=r"events\[1\]: 'events\[0\]' does the same to sw0:p1 at the same time"
            ):
                plan(tmp_path, Schedule(None, events))
        else:
            assert plan(tmp_path, Schedule(None, events)) == 2
    assert plan(tmp_path, Schedule(None, [down(*one), down(*other, port=End("sw0", "p0"))])) == 2


def test_an_event_cannot_do_what_a_rule_of_the_profile_does_all_the_time(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, '  - {name: cut, state: down, port: "sw0:p1", start: 1}\n')
    with pytest.raises(EventError, match=r"events\[0\]: 'cut' does the same to sw0:p1"):
        plan(tmp_path, Schedule(profile, [down(Moment(3), Moment(4))]))
