"""A sweep on the terminal, in both layouts."""

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from emulator.results.run_folder.manifest import Trials
from emulator.results.statistics.sweep import SweepRow, SweepTable
from emulator.trace.meaning.model import CommKind
from emulator.views.terminal.sweep import CHARKHA, EXPLAIN, LAYOUTS, NCCL_TESTS, render_sweep
from tests.support.steps import WORST as STEP


def row(**fields: Any) -> SweepRow:
    known: dict[str, Any] = {
        "size_bytes": 1 << 20,
        "algorithm": "ring",
        "iterations": 2,
        "time_ns": 1_050_000.0,
        "min_ns": 1_000_000,
        "max_ns": 1_100_000,
        "p50_ns": 1_000_000.0,
        "p95_ns": None,
        "p99_ns": None,
        "cv_percent": 6.7,
        "algbw_bytes_per_s": 1e9,
        "busbw_bytes_per_s": 1.5e9,
        "early": 0,
    }
    return SweepRow(**known | fields)


def table(*rows: SweepRow, **fields: Any) -> SweepTable:
    return SweepTable(CommKind.ALL_REDUCE, 4, -1, rows, Trials(3, 1, 2), **fields)


def shown(swept: SweepTable, layout: str) -> list[str]:
    text = io.StringIO()
    out = Console(file=text, width=100, markup=False)
    for one in render_sweep(swept, layout=layout, headline="PASS: fast", last=["Run folder: runs/x"]):
        out.print(one, highlight=False, soft_wrap=isinstance(one, str))
    return [line.rstrip() for line in text.getvalue().splitlines()]


def numbers(lines: list[str]) -> Iterator[list[str]]:
    return (line.split() for line in lines if line and not line.startswith("#"))


def test_all_that_is_not_a_row_of_nccl_tests_is_a_comment() -> None:
    lines = shown(table(row(), row(size_bytes=2 << 20)), NCCL_TESTS)
    assert [words[0] for words in numbers(lines)] == ["1048576", "2097152"]
    assert all(len(words) == 13 for words in numbers(lines))
    assert lines[0] == "# PASS: fast"
    assert "# nRanks 4 minBytes 1048576 maxBytes 2097152 warmup iters: 1 iters: 2" in lines[2]
    assert lines[-1] == "# Run folder: runs/x"


def test_the_columns_of_charkha_have_percentiles_and_variation() -> None:
    lines = shown(table(row(p99_ns=1_090_000.0)), CHARKHA)
    assert lines[0] == "PASS: fast"
    heading = " ".join(lines[1:3]).split()
    assert {"mean", "min", "p50", "p99", "max", "cv", "busbw", "GB/s"} <= set(heading)
    assert "p95" not in heading  # no row has one
    cells = "1 MiB ring 2 1.05 ms 1 ms 1 ms 1.09 ms 1.1 ms 6.70 1.00 1.50"
    assert cells in [" ".join(line.split()) for line in lines]
    assert lines[-1] == "Run folder: runs/x"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_notes_stand_below_the_table(layout: str) -> None:
    mark = "# " if layout == NCCL_TESTS else ""
    found = table(
        row(early=2),
        row(early=2),
        counters={"packets": 2000, "retransmits": 3, "timeouts": 0},
        warnings={"the kernel was mean": 2},
    )
    assert shown(found, layout)[-4:] == [
        f"{mark}4 measurements without bandwidth: payload arrived before a rank had posted (credits are off)",
        f"{mark}Flows: packets 2,000, retransmissions 3, timeouts 0",
        f"{mark}Warning: the kernel was mean (2 times)",
        f"{mark}Run folder: runs/x",
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_measured_is_said(layout: str) -> None:
    mark = "# " if layout == NCCL_TESTS else ""
    assert shown(table(), layout) == [f"{mark}PASS: fast", f"{mark}Nothing was measured", f"{mark}Run folder: runs/x"]


def test_both_layouts_are_explained() -> None:
    assert "--columns charkha" in EXPLAIN
    assert all(name in EXPLAIN for name in ("#wrong", "in-place", "cv"))


@pytest.mark.parametrize("layout", [NCCL_TESTS, CHARKHA])
def test_only_the_worst_recorded_step_is_named(layout: str) -> None:
    lines = shown(table(row(), worst_steps=(STEP, replace(STEP, src=3))), layout)
    (found,) = (line for line in lines if "Worst step" in line)
    assert "rank 1 to 2, iteration 16" in found
    assert found.startswith("#") == (layout == NCCL_TESTS)
    assert not any("Worst step" in line for line in shown(table(row()), layout))
