"""Iterations, ranks and their time lines in a report."""

from __future__ import annotations

from pathlib import Path

from emulator.results.run_folder.manifest import Exclusion, Trials
from emulator.views.html.page.document import Chart, Text
from emulator.views.html.sections.iterations import iterations
from tests.support.report import block_of, drawn, facts_of, identifiers, played, records
from tests.support.runs import collective, pair, ranks


def test_a_run_without_a_complete_iteration_says_so(tmp_path: Path) -> None:
    lacking = {0: ranks((0, 10))}
    section = iterations(facts_of(tmp_path / "run", collective([0, 0], [9, 9]), lacking))
    assert block_of(section, "no-iterations", Text).text == "No measured iteration was completed by all ranks."


def test_every_iteration_has_its_bar_and_a_line_marks_the_median(tmp_path: Path) -> None:
    chart = block_of(iterations(played(tmp_path / "run")), "jct", Chart)
    bars = [(one["iteration"], one["jct_ns"], one["what"]) for one in drawn(chart, "bars")]
    assert bars == [(-1, 500, "warm-up"), (0, 300, "measured"), (1, 100, "measured"), (2, 200, "measured")]
    assert drawn(chart, "median") == [{"jct_ns": 200}]
    assert chart.table is not None
    assert [row["JCT"] for row in records(chart.table)] == ["500 ns", "300 ns", "100 ns", "200 ns"]
    assert "n = 3 measured iterations" in chart.about


def test_an_excluded_iteration_is_shown_but_does_not_count(tmp_path: Path) -> None:
    trials = Trials(4, 1, 2, (Exclusion(1, "a rank was late"),))
    section = iterations(played(tmp_path / "run", trials=trials))
    chart = block_of(section, "jct", Chart)
    assert [one["what"] for one in drawn(chart, "bars")] == ["warm-up", "measured", "excluded", "measured"]
    usage = block_of(section, "rank-usage", Chart)
    assert [value for value, _ in usage.picture.choices] == ["2", "0"]  # the lower median first


def test_the_parts_of_a_rank_add_up_to_the_iteration(tmp_path: Path) -> None:
    chart = block_of(iterations(played(tmp_path / "run")), "rank-usage", Chart)
    first = [one for one in drawn(chart, "usage") if one["iteration"] == "2" and one["rank"] == "0"]
    assert [(one["state"], one["time_ns"]) for one in first] == [
        ("compute", 30),
        ("both", 10),
        ("exposed communication", 50),
        ("neither", 110),
    ]
    assert chart.table is not None
    assert records(chart.table)[0] == {
        "rank": "0",
        "compute": "30 ns",
        "both": "10 ns",
        "exposed communication": "50 ns",
        "neither": "110 ns",
    }


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


def test_without_compute_spans_only_communication_has_a_time_line(tmp_path: Path) -> None:
    section = iterations(played(tmp_path / "run"))
    assert "time-line" not in identifiers(section)
    about = block_of(section, "communication-line", Chart).about
    assert about.endswith("This run did not record when devices compute.")


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
