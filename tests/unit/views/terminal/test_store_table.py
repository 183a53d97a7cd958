"""Stored runs and the statistics of one of them in the terminal."""

from pathlib import Path

import pytest

from emulator.results.run_folder.manifest import RUNNING, Manifest, RunFigures
from emulator.results.run_folder.store import UNREADABLE, Removal, StoredRun
from emulator.results.statistics.method.distribution import distributions
from emulator.results.statistics.samples.iterations import measurements
from emulator.results.statistics.worst.stragglers import lateness
from emulator.views.as_json import runs_to_json, statistics_to_json
from emulator.views.columns.figures import NONE
from emulator.views.terminal.store_table import render_removals, render_runs, render_statistics
from tests.support.runs import collective, manifest, pair, write_run
from tests.support.terminal import rows_of, shown

ROOT = Path("runs")


def stored(name: str, found: Manifest | None = None, status: str = "complete") -> StoredRun:
    return StoredRun(ROOT / name, found, status, None if found else "manifest.json is missing")


def listed(*runs: StoredRun, width: int = 120) -> str:
    return shown(render_runs(runs, ROOT), width=width)


FIGURES = RunFigures(verdict="TESTER-LIMITED", jct_ns=188_000_000, lost=1204)


def test_a_run_has_its_verdict_time_and_loss_beside_what_it_was_played_on() -> None:
    on = manifest(figures=FIGURES, dut={"firmware": "2.1"}, topology={"name": "two-hosts-switch"})
    text = listed(stored("a", on), stored("b", manifest(figures=RunFigures(lost=0))), width=140)
    first, second = rows_of(text)
    begin = ["2026-01-02", "03:04"]
    assert first[:9] == ["a", *begin, "TESTER-LIMITED", "188", "ms", "1,204", "2.1", "two-hosts-switch"]
    assert second[:7] == ["b", *begin, NONE, NONE, "0", NONE]


def test_in_80_columns_the_figures_stay_and_what_goes_is_named() -> None:
    name = "20261127-071254-transformer-8r"
    text = listed(stored(name, manifest(figures=FIGURES, dut={"firmware": "2.1"})), width=80)
    row, omitted = text.splitlines()[-2:]
    assert row.split() == [name, "TESTER-LIMITED", "188", "ms", "1,204", "2.1", "complete"]
    assert omitted.startswith("Omitted at this width: ranks, transport, iterations, trace, began")
    assert max(map(len, text.splitlines())) <= 80


def test_a_run_that_cannot_be_read_has_a_name_and_a_status() -> None:
    (row,) = rows_of(listed(stored("x", None, UNREADABLE)))
    assert row == ["x", *[NONE] * 5, UNREADABLE]


def test_a_running_run_has_no_count_of_iterations_yet() -> None:
    running = stored("x", manifest(status=RUNNING), RUNNING)
    assert rows_of(listed(running))[0][-3:] == [NONE, NONE, RUNNING]
    (document,) = runs_to_json([running])
    assert document["trials"] is None


def test_the_json_has_the_same_figures() -> None:
    (document,) = runs_to_json([stored("a", manifest(figures=FIGURES, topology={"name": "loopback"}))])
    names = ("verdict", "jct_ns", "lost", "profile", "topology")
    assert [document[name] for name in names] == ["TESTER-LIMITED", 188_000_000, 1204, None, "loopback"]


def test_removals_are_announced_before_they_are_made() -> None:
    removals = [
        Removal(stored("a"), 3 << 20, None),
        Removal(stored("b"), 1 << 20, None),
        Removal(stored("c"), 1 << 20, "it is running"),
    ]
    assert shown(render_removals(removals, is_done=False)).splitlines() == [
        "would be removed: runs/a (3 MiB)",
        "would be removed: runs/b (1 MiB)",
        "kept: runs/c: it is running",
        "2 runs would be removed, 4 MiB, 1 kept",
        "Nothing was removed: add --yes to remove them.",
    ]
    assert shown(render_removals(removals[:1], is_done=True)).splitlines() == [
        "removed: runs/a (3 MiB)",
        "1 run removed, 3 MiB",
    ]


def test_statistics_have_percentiles_that_the_samples_allow(tmp_path: Path) -> None:
    samples = [row for n in range(20) for row in collective([0, 0], [100 + n] * 2, iteration=n)]
    found = measurements(write_run(tmp_path / "run", samples))
    text = shown(render_statistics(distributions(found), [], incomplete=0))
    row = " ".join(rows_of(text)[0])
    assert row.startswith("all_reduce, 2 ranks, 1000 B, ring 20 109 ns")
    assert row.endswith(f"117 ns 118 ns {NONE} {NONE} 119 ns 5.4 %")
    assert "left out" not in text.lower()


def test_measurements_that_do_not_count_are_mentioned(tmp_path: Path) -> None:
    samples = [*collective([50, 0], [10, 20]), *collective([0, 0], [9, 9], iteration=1)]
    found = measurements(write_run(tmp_path / "run", samples))
    lines = shown(render_statistics(distributions(found), [], incomplete=3)).splitlines()
    assert "3 measurements lack a member and are omitted." in lines
    assert "1 measurements have a negative time and are omitted." in lines


def test_a_straggler_is_named_with_its_delay(tmp_path: Path) -> None:
    samples = []
    for n in range(12):  # each rank is served last in its turn
        dones = [2000 + (rank == n % 4) for rank in range(4)]
        samples += collective([0, 0, 0, 900], dones, iteration=n, name="grad")
    run = write_run(tmp_path / "run", samples)
    late = [lateness(run, "post"), lateness(run, "done")]
    text = " ".join(shown(render_statistics([], late, incomplete=0)).split())
    assert "rank 3: last in 12 of 12 collectives (3 expected by chance), 900 ns behind at the median" in text
    assert "grad (all_reduce, group world): rank 3 last in 12 of 12, 900 ns behind; first to last 900 ns" in text
    assert "no rank is last more often than by chance (p < 0.05)" in text
    document = statistics_to_json([], late, incomplete=0)
    assert document["lateness"][0]["ranks"][0]["rank"] == 3


@pytest.mark.parametrize("width", [80, 100, 120])
def test_statistics_fit_the_width(tmp_path: Path, width: int) -> None:
    samples = [row for n in range(30) for row in collective([0, 0], [10**6 + n] * 2, iteration=n)]
    samples += [row for n in range(30) for row in pair(0, 10**5, iteration=n, instance=1)]
    found = measurements(write_run(tmp_path / "run", samples))
    text = shown(render_statistics(distributions(found), [], incomplete=0), width=width)
    assert max(map(len, text.splitlines())) <= width
