"""The table of budgets, and U beside the figures themselves."""

from dataclasses import replace

from emulator.results.statistics.class_summary import ClassSummary
from emulator.results.statistics.metric import Unit
from emulator.results.statistics.uncertainty import Budget, Component
from emulator.views.columns.class_columns import CLASS_COLUMNS
from emulator.views.columns.columns import filled
from emulator.views.columns.figures import NONE, give_or_take
from emulator.views.columns.uncertainty_columns import UNCERTAINTY_COLUMNS, StatedFigure, sources

PARTS = (
    Component("repeat", 3000, "A", "10 blocks"),
    Component("clock", 0.0, "B", "one clock"),
    Component("stamp", 4000, "B", "late"),
)
STATED = Budget(1e6, 5000, 10_000, PARTS, bias=2e5, iterations=20)
UNSTATED = Budget(1e6, None, None, (*PARTS[:2], Component("stamp", None, "B", "why not")), "why not")
ROW = ClassSummary("all_reduce", 2, 1 << 20, "ring", 1, 20, 1e9, 1e9, 80.0, 1e6, None, 3e6, 0, None, None)


def cells(budget: Budget) -> dict[str, str]:
    row = StatedFigure("class", "cct_p50", budget, Unit.NS)
    return {one.name: one.cell(row) for one in UNCERTAINTY_COLUMNS}


def test_a_row_has_the_figure_every_part_and_where_it_is_from() -> None:
    assert cells(STATED) == {
        "of": "class",
        "figure": "cct_p50",
        "value": "1 ms",
        "± U": "10 µs",
        "U %": "1.00 %",
        "repeat": "3 µs",
        "clock": "0 ns",
        "stamp": "4 µs",
        "reference": NONE,
        "steal": NONE,
        "tester": "+200 µs",
        "not stated": NONE,
    }
    rows = [StatedFigure("class", "cct_p50", STATED, Unit.NS), StatedFigure("class", "busbw", STATED, Unit.BYTES_PER_S)]
    assert sources(rows) == "repeat: 10 blocks; stamp: late"


def test_a_figure_without_u_says_why() -> None:
    found = cells(UNSTATED)
    assert (found["± U"], found["U %"], found["stamp"], found["not stated"]) == (NONE, NONE, NONE, "why not")


def test_u_stands_beside_the_median_where_it_is_stated() -> None:
    def shown(budget: Budget) -> str | None:
        row = replace(ROW, uncertainty={"cct_p50_ns": budget})
        return {one.name: one.cell(row) for one in filled(CLASS_COLUMNS, [row])}.get("cct ± U")

    assert (shown(STATED), shown(UNSTATED)) == ("10 µs", None)
    assert give_or_take({"jct_ns": STATED}, "jct_ns") == " ± 1.00 %"
    assert give_or_take({"ideal_percent": Budget(50.0, 0.5, 1.0, PARTS)}, "ideal_percent") == " ± 1.00 %"
    assert give_or_take({"jct_ns": UNSTATED}, "jct_ns") == " (U not stated: why not)"
    assert give_or_take({}, "jct_ns") == ""
