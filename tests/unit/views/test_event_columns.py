"""What changed at the device, in tables and pictures."""

from dataclasses import replace

from emulator.results.statistics.events import DeviceEvent, EventFigures, EventMark, Migrations, RateChange, marks
from emulator.views.columns.columns import filled
from emulator.views.columns.event_columns import EVENT_COLUMNS, MIGRATION_COLUMNS, describe_events
from emulator.views.html.sections.events import bands

MS = 1_000_000
S = 1000 * MS
DOWN = DeviceEvent(
    name="events[0]",
    what="port down",
    where="sw0:p1",
    stops_traffic=True,
    happened=True,
    planned_ns=5 * S,
    begin_ns=5 * S + 3 * MS,
    begin_error_ns=2 * MS,
    end_planned_ns=6 * S,
    end_ns=6 * S + 3 * MS,
    end_error_ns=MS,
    seen_by="kernel",
)
COST = EventFigures(
    DOWN,
    at_ns=2 * S,
    outage_ns=1200 * MS,
    outage_error_ns=MS,
    flows=2,
    recovery_ns=200 * MS,
    recovery_error_ns=2 * MS,
    iterations=(3,),
    jct_ns=1500 * MS,
    steady_p50_ns=100 * MS,
    steady_p99_ns=300 * MS,
    retransmissions=1234,
)


def cells(one: EventFigures) -> dict[str, str]:
    return {column.name: column.cell(one) for column in filled(EVENT_COLUMNS, [one])}


def test_figures_stand_beside_their_errors() -> None:
    assert cells(COST) == {
        "where": "sw0:p1",
        "event": "port down",
        "at": "2.000 s",
        "late": "3 ms",
        "within": "2 ms (kernel)",
        "lasted": "1 s",
        "outage": "1.2 s ± 1 ms",
        "flows": "2",
        "recovery": "200 ms ± 2 ms",
        "JCT": "1.5 s",
        "to p50": "15.0",
        "to p99": "5.00",
        "sent again": "1,234",
    }
    assert list(describe_events((COST,))) == []


def test_a_rate_that_changed_has_its_time_and_both_rates() -> None:
    shaped = EventFigures(
        replace(DOWN, what="shape to 100 Mbit/s", stops_traffic=False),
        at_ns=2 * S,
        rate_at_begin=RateChange("h1:eth0", 5 * S + 5 * MS, 2 * MS, 10 * MS, 943.4e6, 94.2e6),
        rate_at_end=RateChange("h0:eth0", 8 * S, 1204 * MS, 100 * MS, 94.2e6, 943.4e6),
    )
    found = cells(shaped)
    assert found["rate changed"] == "h1:eth0 +2.0 ± 10.0 ms: 943 → 94 Mbit/s"
    assert found["and back"] == "h0:eth0 +1,204.0 ± 100.0 ms: 94 → 943 Mbit/s"
    assert "and back" not in cells(replace(shaped, rate_at_end=None))


def test_an_event_that_no_flow_felt_has_no_outage() -> None:
    found = cells(replace(COST, outage_ns=0, flows=0, recovery_ns=0))
    assert found["outage"] == "none"
    assert "recovery" not in found


def test_a_router_passes_something_only_when_it_has_its_routes_back() -> None:
    assert "with routes" not in cells(COST)
    found = cells(replace(COST, event=replace(DOWN, routes_ns=6 * S + 103 * MS)))
    assert (found["lasted"], found["with routes"]) == ("1 s", "1.1 s")


def test_a_probe_that_nothing_reached_any_more_says_at_least() -> None:
    assert "probe" not in cells(COST)
    assert cells(replace(COST, probe_outage_ns=0))["probe"] == "none"
    over = replace(COST, probe_outage_ns=1001 * MS, probe_error_ns=MS)
    assert cells(over)["probe"] == "1 s ± 1 ms"
    assert cells(replace(over, is_probe_over=False))["probe"] == "at least 1 s ± 1 ms"


def test_what_is_not_measured_says_why_and_what_was_lost_from_when_to_when() -> None:
    unknown = replace(COST, outage_ns=None, flows=None, recovery_ns=None, why="not measured: --timeline")
    assert "outage" not in cells(unknown)
    assert list(describe_events((unknown, unknown))) == ["Outage and recovery are not measured: --timeline"]
    cut = replace(COST, is_over=False, lost_from_ns=5 * S, lost_until_ns=7 * S, recovery_ns=None)
    assert cells(cut)["outage"] == "at least 1.2 s ± 1 ms"
    assert list(describe_events((cut,))) == [
        "sw0:p1: no payload of 2 flows arrived any more from 1.997 s to 3.997 s, the end of the run"
    ]


def test_an_event_that_did_not_happen_is_listed_as_that() -> None:
    never = EventFigures(replace(DOWN, happened=False, begin_ns=None, end_ns=None, begin_error_ns=None))
    assert cells(never)["at"] == "never"
    assert list(describe_events((never,))) == ["sw0:p1 port down (events[0]): did not happen, the run ended before"]


def test_a_picture_has_a_band_for_the_part_of_an_event_in_its_time() -> None:
    open_ended = replace(DOWN, end_ns=None)
    never = replace(DOWN, happened=False, begin_ns=None, end_ns=None)
    shown = marks([EventFigures(one) for one in (DOWN, open_ended, never)], ())
    found = bands(shown, 4 * S, 5 * S + 500 * MS)
    assert found == {
        "event": ["sw0:p1 port down"] * 2,
        "from_ns": [S + 3 * MS] * 2,
        "to_ns": [S + 500 * MS] * 2,
    }
    assert bands(shown[:1], 7 * S, 8 * S) == {}


AWAY = Migrations("h1:eth0", "migration to eth1", 5, 0, 0, ((5 * S + 400 * MS, 5 * S + 600 * MS), (9 * S, 9 * S)))


def test_traffic_that_moved_is_in_pictures_when_it_did() -> None:
    shown = marks([COST], [AWAY])
    assert shown == [
        EventMark("sw0:p1 port down", 5 * S + 3 * MS, 6 * S + 3 * MS),
        EventMark("h1:eth0 migration to eth1", 5 * S + 400 * MS, 5 * S + 600 * MS),
        EventMark("h1:eth0 migration to eth1", 9 * S, 9 * S),
    ]
    assert bands(shown, 8 * S, 10 * S) == {"event": ["h1:eth0 migration to eth1"], "from_ns": [S], "to_ns": [S]}


def test_what_moved_after_an_event_stands_beside_it() -> None:
    away, back = (2_397 * MS, "h1:eth0 migration to eth1"), (3_997 * MS, "h1:eth1 migration back to eth0")
    [told] = describe_events((replace(COST, moved=(away, back)),))
    assert told == (
        "sw0:p1 port down: afterwards traffic moved: h1:eth0 migration to eth1 from 2.397 s on, "
        "h1:eth1 migration back to eth0 from 3.997 s on"
    )
    [told] = describe_events((replace(COST, moved=(away, back) * 9),))
    assert (told.count("eth1 from"), told.endswith(", 14 more")) == (2, True)


def test_migrations_count_from_the_first_iteration() -> None:
    one = Migrations("h0:eth0", "migration to eth1", 1200, 1500 * MS, 2 * S)
    assert [column.cell(one) for column in MIGRATION_COLUMNS] == [
        "h0:eth0",
        "migration to eth1",
        "1,200",
        "1.500 s",
        "2.000 s",
    ]
