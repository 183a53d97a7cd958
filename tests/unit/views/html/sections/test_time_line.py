"""Time lines of compute and communication."""

from __future__ import annotations

from pathlib import Path

from emulator.views.html.page.document import Chart
from emulator.views.html.sections.iterations import iterations
from tests.support.report import block_of, drawn, facts_of, identifiers, played
from tests.support.runs import collective, pair, ranks


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
