"""Trends and comparisons from run folders."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from emulator.annexes.service.history import (
    ProgressReader,
    compare_folders,
    judged,
    progress_of,
    result_of_run,
    trend_of,
    trend_page,
)
from emulator.annexes.service.model import Progress, Refusal, Run, State
from emulator.control.parameter import Parameter
from emulator.errors import InputError
from emulator.results.run_folder.manifest import RunFigures
from emulator.results.run_folder.writer import RunWriter
from emulator.results.verdict.judge import Outcome
from emulator.results.verdict.rules import EXAMPLE, load_rules
from emulator.views.columns.result_columns import RunResult
from emulator.views.html.page.document import Chart
from tests.support.repeated import SIZES, write_runs
from tests.support.runs import manifest, ranks

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


def test_progress_is_that_of_the_job_that_ends_last(tmp_path: Path) -> None:
    assert progress_of(tmp_path / "session") is None
    facts = manifest(parameters={"iterations": Parameter(4)})
    second_ns = 1_000_000_000
    with RunWriter(tmp_path / "session" / "job=a", facts) as a, RunWriter(tmp_path / "session" / "job=b", facts) as b:
        for writer in (a, b):
            writer.flush()
        assert progress_of(tmp_path / "session") == Progress(done=0, planned=4)
        for number, end in ((-1, 1), (0, 3), (1, 6)):
            a.add_iteration(number, ranks((0, end * second_ns), (0, end * second_ns)))
        a.flush()
        assert progress_of(tmp_path / "session") == Progress(done=0, planned=4), "b has not begun"
        assert progress_of(tmp_path / "session" / "job=a") == Progress(done=2, planned=4, left_s=4.0)
        b.add_iteration(0, ranks((0, second_ns), (0, second_ns)))
        b.flush()
        assert progress_of(tmp_path / "session") == Progress(done=2, planned=4, left_s=4.0)
    assert progress_of(tmp_path / "session") is None, "both have ended"


def test_a_run_that_plays_is_looked_at_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = iter(Progress(done=done, planned=9) for done in range(9))
    monkeypatch.setattr("emulator.annexes.service.history.progress_of", lambda folder: next(seen))
    reader = ProgressReader()
    assert [reader.of(run(1), tmp_path) for _ in range(3)] == [Progress(done=0, planned=9)] * 3
    assert reader.of(run(2), tmp_path) == Progress(done=1, planned=9), "another run is looked at at once"


def test_a_run_is_judged_by_its_own_rules_or_by_others(folders: list[Path]) -> None:
    assert judged(folders[0], None).verdict == judged(folders[0], load_rules(EXAMPLE)).verdict
    assert judged(folders[0], None).verdict.findings
