"""Iterations, ranks and their time lines in a report."""

from dataclasses import replace
from pathlib import Path

import pytest

from emulator.results.run_folder.manifest import RUNNING, Exclusion, Trials
from emulator.views.columns.figures import NONE
from emulator.views.html.facts import PageFacts
from emulator.views.html.page.document import Chart, Table, Text
from emulator.views.html.sections.iterations import DRAWN, ITERATION_POINTS, RANKS, completion, iterations, stragglers
from tests.support.report import block_of, drawn, facts_of, identifiers, played, records
from tests.support.runs import collective, pair, ranks


def test_a_run_without_a_complete_iteration_says_so(tmp_path: Path) -> None:
    lacking = {0: ranks((0, 10))}
    section = iterations(facts_of(tmp_path / "run", collective([0, 0], [9, 9]), lacking))
    assert block_of(section, "no-iterations", Text).text == "No measured iteration was completed by all ranks."


def test_an_excluded_iteration_is_shown_but_does_not_count(tmp_path: Path) -> None:
    trials = Trials(4, 1, 2, (Exclusion(1, "a rank was late"),))
    section = iterations(played(tmp_path / "run", trials=trials))
    chart = block_of(section, "jct", Chart)
    assert [one["what"] for one in drawn(chart, "bars")] == ["warm-up", "measured", "excluded", "measured"]
    usage = block_of(section, "rank-usage", Chart)
    assert [value for value, _ in usage.picture.choices] == ["2", "0"]  # the lower median first


def test_communication_is_drawn_by_kind_from_post_to_done(tmp_path: Path) -> None:
    samples = [*collective([100, 120], [180, 190]), *pair(130, 150, received_post=110, instance=1)]
    facts = facts_of(tmp_path / "run", samples, {0: ranks((100, 200), (100, 200), communication=80)})
    chart = block_of(iterations(facts), "communication-line", Chart)
    bars = [(one["rank"], one["kind"], one["begin_ns"], one["end_ns"]) for one in drawn(chart, "bars")]
    assert bars == [
        ("0", "all_reduce", 0, 80),
        ("0", "send", 30, 55),
        ("1", "all_reduce", 20, 90),
        ("1", "recv", 10, 50),
    ]


def test_with_compute_spans_overlap_is_drawn(tmp_path: Path) -> None:
    facts = facts_of(
        tmp_path / "run",
        collective([20, 20], [60, 60]),
        {0: ranks((0, 100), (0, 100), compute=50, communication=40, overlap=10)},
        compute=[(0, 0, 0, 30), (0, 0, 80, 100), (0, 1, 0, 10)],
    )
    chart = block_of(iterations(facts), "time-line", Chart)
    bars = [(one["rank"], one["state"], one["begin_ns"], one["end_ns"]) for one in drawn(chart, "bars")]
    assert bars == [
        ("0", "compute", 0, 20),
        ("0", "both", 20, 30),
        ("0", "exposed communication", 30, 60),
        ("0", "compute", 80, 100),
        ("1", "compute", 0, 10),
        ("1", "exposed communication", 20, 60),
    ]


def late(folder: Path, *, count: int = 12, members: int = 4) -> PageFacts:
    """The last rank always posts 900 ns late; all complete last in turn."""
    samples = []
    for number in range(count):
        dones = [2000 + (rank == number % members) for rank in range(members)]
        samples += collective([0] * (members - 1) + [900], dones, iteration=number, name="grad")
    return facts_of(folder, samples, {0: ranks(*[(0, 2000)] * members)})


def test_during_the_run_stragglers_are_not_known_yet(tmp_path: Path) -> None:
    facts = replace(late(tmp_path / "run"), late_posts=None, late_ends=None)
    assert block_of(stragglers(facts), "no-stragglers", Text).text == "Available when the run ends."


def test_without_a_collective_there_is_no_straggler(tmp_path: Path) -> None:
    section = stragglers(facts_of(tmp_path / "run", [], {0: ranks((0, 1), (0, 1))}))
    assert block_of(section, "no-stragglers", Text).text.startswith("No collective of two ranks or more")


def test_further_ranks_are_counted(tmp_path: Path) -> None:
    table = block_of(stragglers(late(tmp_path / "run", members=RANKS + 2)), "late-post", Table)
    assert len(table.rows) == RANKS
    assert table.about == "2 more ranks are less often last."


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
