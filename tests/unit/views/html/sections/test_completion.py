"""Completion times in a report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from emulator.results.run_folder.manifest import RUNNING
from emulator.views.columns.figures import NONE
from emulator.views.html.facts import PageFacts
from emulator.views.html.page.document import Chart, Table, Text
from emulator.views.html.sections.completion import DRAWN, ITERATION_POINTS, completion
from tests.support.report import block_of, drawn, facts_of, identifiers, records
from tests.support.runs import collective, ranks

SPENT = {0: ranks((0, 10), (0, 10))}


def swept(folder: Path, *, sizes: int = 5, **fields: object) -> PageFacts:
    samples = []
    for number in range(sizes):
        size = 1 << (10 + number)
        samples += collective([0, 0], [1000 * (number + 1)] * 2, instance=number, size_bytes=size, **fields)
    return facts_of(folder, samples, SPENT)


def test_a_run_without_collectives_says_so(tmp_path: Path) -> None:
    section = completion(facts_of(tmp_path / "run", [], SPENT))
    assert block_of(section, "no-classes", Text).text == "No collective was completed in a measured iteration."


def test_the_table_has_a_row_per_class_and_explains_its_columns(tmp_path: Path) -> None:
    facts = facts_of(tmp_path / "run", collective([0, 100], [2100, 1100], size_bytes=1 << 20), SPENT)
    table = block_of(completion(facts), "classes", Table)
    (row,) = records(table)
    assert (row["collective"], row["ranks"], row["size"], row["cct p50"]) == ("all_reduce", "2", "1 MiB", "2 µs")
    assert (row["skew p50"], row["cct p99"], row["n"]) == ("100 ns", NONE, "1")
    assert all(column.meaning for column in table.columns)


def test_percentiles_need_enough_measurements(tmp_path: Path) -> None:
    samples = [row for n in range(20) for row in collective([0, 0], [100 + n] * 2, iteration=n)]
    facts = facts_of(tmp_path / "run", samples, {n: ranks((0, 9), (0, 9)) for n in range(20)})
    table = block_of(completion(facts), "percentiles", Table)
    (row,) = records(table)
    assert (row["n"], row["p50"], row["p95"], row["p99"], row["max"]) == ("20", "109 ns", "118 ns", NONE, "119 ns")
    assert table.is_folded


def test_percentiles_wait_for_the_end_of_the_run(tmp_path: Path) -> None:
    facts = facts_of(tmp_path / "run", collective([0, 0], [10, 10]), SPENT)
    running = replace(facts, manifest=replace(facts.manifest, status=RUNNING))
    assert "percentiles" in identifiers(completion(facts))
    assert "percentiles" not in identifiers(completion(running))


def test_the_curve_has_every_measurement(tmp_path: Path) -> None:
    samples = [row for n in range(4) for row in collective([0, 0], [100 * (n + 1)] * 2, iteration=n)]
    facts = facts_of(tmp_path / "run", samples, {n: ranks((0, 9), (0, 9)) for n in range(4)})
    chart = block_of(completion(facts), "cct-distribution", Chart)
    assert [(one["time_ns"], one["share"]) for one in drawn(chart, "curve")] == [
        (100, 0.25),
        (200, 0.5),
        (300, 0.75),
        (400, 1.0),
    ]
    assert "n = 4 in 1 class." in chart.about


def test_only_the_most_expensive_classes_are_drawn(tmp_path: Path) -> None:
    samples = []
    for number in range(DRAWN + 2):
        samples += collective([0, 0], [1000 * (number + 1)] * 2, instance=number, size_bytes=8 * (number + 1))
    chart = block_of(completion(facts_of(tmp_path / "run", samples, SPENT)), "cct-distribution", Chart)
    names = {one["class"] for one in drawn(chart, "curve")}
    assert len(names) == DRAWN
    assert "all_reduce, 2 ranks, 8 B, ring" not in names
    assert "(2 more take less time)" in chart.about


def test_times_over_iterations_have_median_and_range(tmp_path: Path) -> None:
    samples = [
        *collective([0, 0], [100, 100]),
        *collective([0, 0], [300, 300], instance=1),
        *collective([0, 0], [200, 200], instance=2),
        *collective([0, 0], [50, 50], iteration=1),
    ]
    facts = facts_of(tmp_path / "run", samples, {n: ranks((0, 9), (0, 9)) for n in range(2)})
    points = drawn(block_of(completion(facts), "cct-over-iterations", Chart), "points")
    assert [(one["iteration"], one["least"], one["median"], one["most"], one["n"]) for one in points] == [
        (0, 100, 200, 300, 3),
        (1, 50, 50, 50, 1),
    ]


def test_many_iterations_share_points(tmp_path: Path) -> None:
    count = 2 * ITERATION_POINTS
    samples = [row for n in range(count) for row in collective([0, 0], [100 + n] * 2, iteration=n)]
    facts = facts_of(tmp_path / "run", samples, {0: ranks((0, 9), (0, 9))})
    chart = block_of(completion(facts), "cct-over-iterations", Chart)
    points = drawn(chart, "points")
    assert len(points) == ITERATION_POINTS
    assert sum(one["n"] for one in points) == count
    assert "median of the class per 2 iterations" in chart.about


def test_several_sizes_of_one_collective_are_a_sweep(tmp_path: Path) -> None:
    facts = swept(tmp_path / "run")
    chart = block_of(completion(facts), "busbw-over-size", Chart)
    points = drawn(chart, "points")
    assert [one["size_bytes"] for one in points] == [1024, 2048, 4096, 8192, 16384]
    rates = {row.size_bytes: row.busbw_bytes_per_s for row in facts.summary.classes}
    assert [one["busbw"] for one in points] == pytest.approx([(rates[n["size_bytes"]] or 0) / 1e9 for n in points])
    assert "from 1 KiB to 16 KiB" in chart.about


def test_a_few_sizes_or_a_class_without_bandwidth_are_not_a_sweep(tmp_path: Path) -> None:
    assert "busbw-over-size" not in identifiers(completion(swept(tmp_path / "few", sizes=3)))
    assert "busbw-over-size" not in identifiers(completion(swept(tmp_path / "early", early=True)))
