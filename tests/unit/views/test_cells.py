"""Cells of tables, row by row, as somebody has read and approved them; and sentences beside the tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from emulator.results.statistics.class_summary import ClassSummary
from emulator.results.statistics.events import DeviceEvent, EventFigures, EventMark, Migrations, RateChange, marks
from emulator.results.statistics.method.distribution import Distribution
from emulator.results.statistics.metric import Unit
from emulator.results.statistics.samples.classes import JCT, ClassKey
from emulator.results.statistics.uncertainty import Budget, Component
from emulator.results.verdict.judge import Outcome
from emulator.views.columns.class_columns import CLASS_COLUMNS, DISTRIBUTION_COLUMNS
from emulator.views.columns.columns import Column, filled
from emulator.views.columns.event_columns import EVENT_COLUMNS, MIGRATION_COLUMNS, describe_events
from emulator.views.columns.figures import give_or_take
from emulator.views.columns.result_columns import STYLES, VERDICT_COLUMNS
from emulator.views.columns.uncertainty_columns import UNCERTAINTY_COLUMNS, StatedFigure, sources
from emulator.views.columns.worst_columns import WORST_STEP_COLUMNS, describe_worst_step
from emulator.views.html.sections.events import bands
from tests.support.approved import approved
from tests.support.steps import WORST as STEP
from tests.unit.views.terminal.test_verdict_table import rule, verdict

Rows = Mapping[str, Any]


def cells(columns: Iterable[Column[Any]], rows: Rows, *, only_filled: bool = False) -> list[str]:
    """The cells of each row, below its name; without those of columns that have no value in it, if only filled."""
    lines = []
    for name, row in rows.items():
        shown = filled(list(columns), [row]) if only_filled else columns
        lines += [f"== {name}", *(f"{one.name or one.key}: {one.cell(row)}" for one in shown), ""]
    return lines


PARTS = (
    Component("repeat", 3000, "A", "10 blocks"),
    Component("clock", 0.0, "B", "one clock"),
    Component("stamp", 4000, "B", "late"),
)
STATED = Budget(1e6, 5000, 10_000, PARTS, bias=2e5, iterations=20)
UNSTATED = Budget(1e6, None, None, (*PARTS[:2], Component("stamp", None, "B", "why not")), "why not")


def of_classes(_: Path) -> list[str]:
    known = ClassSummary(
        "all_reduce", 8, 1 << 20, "ring", 3, 60, 1e9, 1.75e9, 80.0, 1e6, 2e6, 3e6, 1000, None, None, 99.0
    )
    rows = {
        "limited by the tester": known,
        "not limited by it, waits of 38 %": replace(known, tester_percent=1.0, core_wait_fraction=0.38),
        "the tester is unknown, waits of 20 % are usual": replace(known, tester_percent=None, core_wait_fraction=0.2),
        "U is stated": replace(known, uncertainty={"cct_p50_ns": STATED}),
        "U is not stated": replace(known, uncertainty={"cct_p50_ns": UNSTATED}),
    }
    unknown = {"nothing is known": ClassSummary("send_recv", 2, 8, "", 1, 0, *[None] * 10)}
    return [
        *cells(CLASS_COLUMNS, rows, only_filled=True),
        *cells(CLASS_COLUMNS, unknown, only_filled=True),
        "-- hidden columns, too",
        *cells(CLASS_COLUMNS, unknown),
    ]


def of_distributions(_: Path) -> list[str]:
    key = ClassKey("all_reduce", 8, 8, "ring")
    measured = Distribution(key, 20, 20, 0, 0, 1000, None, 2000, None, None, None, 3000, 0.05)
    rows = {"some percentiles": measured, "the iteration": replace(measured, key=ClassKey(JCT, 8))}
    return cells(DISTRIBUTION_COLUMNS, rows)


def of_budgets(_: Path) -> list[str]:
    def figure(budget: Budget, name: str = "cct_p50", unit: Unit = Unit.NS) -> StatedFigure:
        return StatedFigure("class", name, budget, unit)

    stated = {"stated": figure(STATED), "the same sources": figure(STATED, "busbw", Unit.BYTES_PER_S)}
    beside = {"jct_ns": STATED, "ideal_percent": Budget(50.0, 0.5, 1.0, PARTS), "busbw": UNSTATED}
    return [
        *cells(UNCERTAINTY_COLUMNS, {**stated, "not stated": figure(UNSTATED)}),
        f"sources: {sources(list(stated.values()))}",
        *(f"beside {name}: {give_or_take(beside, name)!r}" for name in (*beside, "unknown")),
    ]


def of_worst_steps(_: Path) -> list[str]:
    bare = replace(STEP, path="", qpn=None, source_port=None, events={}, device_drops=0)
    rows = {"a step": STEP, "ports are named where no path does": bare}
    in_words = (STEP, replace(STEP, above_median_ns=None, events={}, waited_for="ack"))
    return [*cells(WORST_STEP_COLUMNS, rows), *map(describe_worst_step, in_words)]


MS, S = 1_000_000, 1_000_000_000
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


def of_events(_: Path) -> list[str]:
    cost = EventFigures(
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
    shaped = EventFigures(
        replace(DOWN, what="shape to 100 Mbit/s", stops_traffic=False),
        at_ns=2 * S,
        rate_at_begin=RateChange("h1:eth0", 5 * S + 5 * MS, 2 * MS, 10 * MS, 943.4e6, 94.2e6),
        rate_at_end=RateChange("h0:eth0", 8 * S, 1204 * MS, 100 * MS, 94.2e6, 943.4e6),
    )
    away, back = (2397 * MS, "h1:eth0 migration to eth1"), (3997 * MS, "h1:eth1 migration back to eth0")
    probed = replace(cost, probe_outage_ns=1001 * MS, probe_error_ns=MS)
    rows = {
        "figures stand beside their errors": cost,
        "a rate that changed, and back": shaped,
        "a rate that stayed": replace(shaped, rate_at_end=None),
        "no flow felt it": replace(cost, outage_ns=0, flows=0, recovery_ns=0),
        "a router that has its routes back": replace(cost, event=replace(DOWN, routes_ns=6 * S + 103 * MS)),
        "the probe missed nothing": replace(cost, probe_outage_ns=0),
        "the probe": probed,
        "nothing reached the probe any more": replace(probed, is_probe_over=False),
        "not measured": replace(cost, outage_ns=None, flows=None, recovery_ns=None, why="not measured: --timeline"),
        "it is not over": replace(cost, is_over=False, lost_from_ns=5 * S, lost_until_ns=7 * S, recovery_ns=None),
        "traffic moved after it": replace(cost, moved=(away, back)),
        "four moves are named, the rest counted": replace(cost, moved=(away, back) * 9),
        "it did not happen": EventFigures(
            replace(DOWN, happened=False, begin_ns=None, end_ns=None, begin_error_ns=None)
        ),
    }
    words = {name: list(describe_events((one, one))) for name, one in rows.items()}
    moved = Migrations("h0:eth0", "migration to eth1", 1200, 1500 * MS, 2 * S)
    return [
        *cells(EVENT_COLUMNS, rows, only_filled=True),
        *(f"{name}, twice: {lines}" for name, lines in words.items()),
        *cells(MIGRATION_COLUMNS, {"a migration": moved}),
    ]


def of_checks(folder: Path) -> list[str]:
    of_class, of_run = (verdict(folder / name, rule(name, limit)) for name, limit in (("cct_p50", 10), ("jct", 900)))
    return cells(VERDICT_COLUMNS, {"of a class": of_class.findings[0], "of the run": of_run.findings[0]})


TABLES: Sequence[Callable[[Path], list[str]]] = (
    *(of_classes, of_distributions, of_budgets, of_worst_steps, of_events, of_checks),
)


@pytest.mark.parametrize("make", TABLES, ids=lambda make: make.__name__)
def test_cells_are_what_was_approved(make: Callable[[Path], list[str]], tmp_path: Path) -> None:
    approved(f"cells/{make.__name__}", "\n".join(make(tmp_path)) + "\n")


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_has_a_style(outcome: Outcome) -> None:
    assert STYLES[outcome].startswith("bold ")


def test_a_picture_has_a_band_for_the_part_of_an_event_in_its_time() -> None:
    open_ended = replace(DOWN, end_ns=None)
    never = replace(DOWN, happened=False, begin_ns=None, end_ns=None)
    shown = marks([EventFigures(one) for one in (DOWN, open_ended, never)], ())
    found = bands(shown, 4 * S, 5 * S + 500 * MS)
    assert found == {"event": ["sw0:p1 port down"] * 2, "from_ns": [S + 3 * MS] * 2, "to_ns": [S + 500 * MS] * 2}
    assert bands(shown[:1], 7 * S, 8 * S) == {}


def test_traffic_that_moved_is_in_pictures_when_it_did() -> None:
    spans = ((5 * S + 400 * MS, 5 * S + 600 * MS), (9 * S, 9 * S))
    shown = marks([EventFigures(DOWN)], [Migrations("h1:eth0", "migration to eth1", 5, 0, 0, spans)])
    assert shown == [
        EventMark("sw0:p1 port down", 5 * S + 3 * MS, 6 * S + 3 * MS),
        EventMark("h1:eth0 migration to eth1", 5 * S + 400 * MS, 5 * S + 600 * MS),
        EventMark("h1:eth0 migration to eth1", 9 * S, 9 * S),
    ]
    assert bands(shown, 8 * S, 10 * S) == {"event": ["h1:eth0 migration to eth1"], "from_ns": [S], "to_ns": [S]}
