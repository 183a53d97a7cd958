"""Cells of the tables with a row per class of collectives."""

from dataclasses import replace

import pytest

from emulator.results.statistics.class_summary import ClassSummary
from emulator.results.statistics.method.distribution import Distribution
from emulator.results.statistics.samples.classes import JCT, ClassKey
from emulator.views.columns.class_columns import CLASS_COLUMNS, DISTRIBUTION_COLUMNS
from emulator.views.columns.columns import filled
from emulator.views.columns.figures import NONE

ROW = ClassSummary("all_reduce", 8, 1 << 20, "ring", 3, 60, 1e9, 1.75e9, 80.0, 1e6, 2e6, 3e6, 1000, None, None, 99.0)
UNKNOWN = ClassSummary("send_recv", 2, 8, "", 1, 0, *[None] * 10)
MEASURED = Distribution(
    ClassKey("all_reduce", 8, 8, "ring"), 20, 20, 0, 0, 1000, None, 2000, None, None, None, 3000, 0.05
)


def cells(row: ClassSummary) -> dict[str, str]:
    return {one.name: one.cell(row) for one in CLASS_COLUMNS}


def test_figures_of_a_class_carry_their_units() -> None:
    found = cells(ROW)
    assert (found["size"], found["algbw GB/s"], found["busbw GB/s"]) == ("1 MiB", "1.00", "1.75")
    assert (found["cct p50"], found["cct p99"], found["cct max"], found["skew p50"]) == (
        "1 ms!",
        "2 ms",
        "3 ms",
        "1 µs",
    )


@pytest.mark.parametrize(("percent", "ends_with_mark"), [(99.0, True), (1.0, False), (None, False)])
def test_only_a_class_that_the_tester_limits_is_marked(percent: float | None, *, ends_with_mark: bool) -> None:
    assert cells(replace(ROW, tester_percent=percent))["cct p50"].endswith("!") is ends_with_mark


@pytest.mark.parametrize(("fraction", "shown"), [(0.38, "38.0"), (0.2, NONE), (None, NONE)])
def test_a_wait_for_a_core_is_noted_at_the_row_that_it_concerns(fraction: float | None, shown: str) -> None:
    waiting = replace(ROW, core_wait_fraction=fraction)
    assert cells(waiting)["waited %"] == shown
    assert ("waited %" in [one.name for one in filled(CLASS_COLUMNS, [waiting])]) is (shown != NONE)


def test_what_is_unknown_is_a_dash_and_its_optional_column_is_hidden() -> None:
    found = cells(UNKNOWN)
    assert {found[name] for name in ("algorithm", "busbw GB/s", "cct p50", "traced", "bw ratio")} == {NONE}
    names = [one.name for one in filled(CLASS_COLUMNS, [UNKNOWN])]
    assert not {"traced", "bw ratio", "ideal %"} & set(names)
    assert "busbw GB/s" in names


def test_the_iteration_is_called_jct_among_the_classes() -> None:
    name, *_ = DISTRIBUTION_COLUMNS
    assert name.cell(MEASURED) == "all_reduce, 8 ranks, 8 B, ring"
    assert name.cell(replace(MEASURED, key=ClassKey(JCT, 8))) == "JCT"


def test_percentiles_that_the_samples_do_not_allow_are_dashes() -> None:
    found = {one.name: one.cell(MEASURED) for one in DISTRIBUTION_COLUMNS}
    assert (found["p50"], found["p90"], found["max"], found["CV"]) == ("1 µs", "2 µs", "3 µs", "5.0 %")
    assert {found[name] for name in ("p95", "p99", "p99.9", "95 % interval")} == {NONE}
