"""Trends and comparisons from run folders."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from emulator.annexes.service.history import compare_folders, result_of_run, trend_of, trend_page
from emulator.annexes.service.model import Refusal, Run, State
from emulator.errors import InputError
from emulator.results.run_folder.manifest import RunFigures
from emulator.results.verdict.judge import Outcome
from emulator.views.columns.result_columns import RunResult
from emulator.views.html.page.document import Chart
from tests.support.repeated import SIZES, write_runs

BEGIN = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def run(number: int) -> Run:
    return Run(
        id=number,
        dut="dut",
        user="ann",
        name="trace",
        state=State.COMPLETE,
        series="5e71e5",
        profile=None,
        submitted=BEGIN,
        started=BEGIN,
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return [one.folder for one in write_runs(tmp_path_factory.mktemp("runs"), runs=4, seed=1)]


def test_a_trend_has_a_point_per_run_and_class_oldest_first(folders: list[Path]) -> None:
    points = trend_of([run(2), run(1)], folders[1::-1])
    assert [one.run for one in points] == sorted(one.run for one in points)
    kinds = [one.kind for one in points if one.run == 1]
    assert kinds == [one.kind for one in points if one.run == 2]
    assert len(kinds) == 1 + len(SIZES)
    for one in points:
        assert None not in (one.low_ns, one.p50_ns, one.high_ns)
        assert one.low_ns <= one.p50_ns <= one.high_ns


def test_its_page_draws_every_point_and_escapes_nothing_away(folders: list[Path]) -> None:
    points = trend_of([run(1)], folders[:1])
    page = trend_page(points, dut="<dut>", name="trace")
    (chart,) = page.sections[0].blocks
    assert isinstance(chart, Chart)
    assert len(chart.picture.data["points"]["value"]) == len(points)
    assert chart.table is not None
    assert len(chart.table.rows) == len(points)
    assert page.heading == "trace on <dut>"


def test_groups_are_compared_as_the_command_does(folders: list[Path]) -> None:
    found = compare_folders({"baseline #1": folders[:2], "other #3": folders[2:]}, force=False)
    assert [group.name for group in found.groups] == ["baseline #1", "other #3"]
    with pytest.raises(InputError, match="is in two groups, A and B"):
        compare_folders({"A": folders[:1], "B": folders[:2]}, force=False)


def test_what_is_not_comparable_is_refused_unless_forced(folders: list[Path], tmp_path: Path) -> None:
    other = [one.folder for one in write_runs(tmp_path, runs=2, seed=2, algorithm="tree")]
    with pytest.raises(Refusal) as refusal:
        compare_folders({"A": folders, "B": other}, force=False)
    assert refusal.value.status == 409
    assert compare_folders({"A": folders, "B": other}, force=True).is_forced


def test_a_list_has_the_figures_of_a_run_and_before_its_end_its_profile(tmp_path: Path) -> None:
    figures = RunFigures(verdict="PASS", jct_ns=9, lost=2)
    one = write_runs(tmp_path / "runs", runs=1, seed=1, dut={"firmware": "2.1"}, figures=figures)[0]
    done = result_of_run(replace(run(1), verdict="PASS", profile="slow"), one.folder)
    assert (done.verdict, done.figures, done.profile) == (Outcome.PASS, figures, "2.1")
    waiting = result_of_run(replace(run(2), profile="slow"), tmp_path / "none")
    assert waiting == RunResult(profile="slow")
