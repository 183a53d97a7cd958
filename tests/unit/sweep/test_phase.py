from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from emulator.errors import InputError, RunError, RunInterrupted
from emulator.experiment.absolute_paths import with_absolute_paths
from emulator.experiment.spec import Experiment, Job
from emulator.experiment.spec import Sweep as Sizes
from emulator.planner.square_waves import Wave, expected_factors
from emulator.run_folder.manifest import Scaling
from emulator.run_folder.reader import Run
from emulator.run_folder.session import Session
from emulator.sweep.phase import PhaseProgress, PhaseSweep, make_phase_sweep, play_phases
from emulator.sweep.phase_page import phase_page
from emulator.sweep.phase_record import PhaseRecord, phase_record
from emulator.sweep.phase_table import render_phases
from emulator.views.html.page.document import Chart, Table
from tests.support.report import block_of, drawn, records
from tests.support.sessions import COMPUTE_NS, PlayedJob, write_job, write_jobs
from tests.support.terminal import shown

ALL_REDUCE = Sizes(collective="all_reduce", ranks=2, sizes=("1K",))
TWO = Experiment(jobs=tuple(Job(name=name, sweep=ALL_REDUCE, pace="continuous") for name in "ab"))
PERIOD_NS = 1_000_000
WAVE = Wave(COMPUTE_NS, PERIOD_NS - COMPUTE_NS)
ITERATIONS = 9


class Player:
    """Plays jobs as square waves; sessions of `failing` phases fail."""

    def __init__(self, *failing: float, interrupt_after: int = 99) -> None:
        self._failing, self._left = failing, interrupt_after
        self.played: list[str] = []

    def solo(self, experiment: Experiment, name: str, folder: Path) -> Run:
        self._note(folder)
        return write_job(
            folder,
            start_ns=0,
            iterations=[PERIOD_NS] * ITERATIONS,
            run_id=str(folder),
            scaling=Scaling(bytes=0.5),
            spec=with_absolute_paths(experiment.for_job(name)).to_plain(),
        )

    def session(self, experiment: Experiment, folder: Path) -> Session:
        self._note(folder)
        offset_ns = experiment.jobs[1].start_ns
        phase = offset_ns / PERIOD_NS
        if phase in self._failing:
            raise RunError("agent a0 is lost")
        factors = expected_factors(WAVE, WAVE, phase=phase)
        shared = [round(PERIOD_NS * factors[0])] * ITERATIONS
        alone_first = [PERIOD_NS, *shared[1:]] if phase > WAVE.duty else shared
        jobs = {"a": PlayedJob(0, alone_first), "b": PlayedJob(offset_ns, shared)}
        return write_jobs(folder, jobs, spec=with_absolute_paths(experiment).to_plain())

    def _note(self, folder: Path) -> None:
        if len(self.played) == self._left:
            raise RunInterrupted
        self.played.append("/".join(folder.parts[-2 if "phase" in folder.parts[-2] else -3 :]))


def play(player: Player, root: Path, sweep: PhaseSweep, *, resume: bool = False) -> PhaseProgress:
    progress = PhaseProgress(root)
    play_phases(sweep, progress, play_solo=player.solo, play_session=player.session, resume=resume)
    return progress


def record(root: Path, phases: str, player: Player | None = None, repeat: int = 1) -> PhaseRecord:
    sweep = make_phase_sweep(TWO, phases, repeat=repeat)
    return phase_record(sweep, play(player or Player(), root, sweep), written="2026-01-02T03:04:05+00:00")


def test_each_job_is_played_alone_and_then_both_at_every_phase(tmp_path: Path) -> None:
    player = Player()
    play(player, tmp_path / "out", make_phase_sweep(TWO, "0,0.5", repeat=2))
    once = ["solo/01/job=a", "solo/01/job=b", "phase=0/01", "phase=0.5/01"]
    assert player.played == [*once, *(one.replace("01", "02") for one in once)]


def test_the_second_job_begins_a_part_of_an_iteration_after_the_first() -> None:
    late = replace(TWO, jobs=(replace(TWO.jobs[0], start="3ms"), TWO.jobs[1]))
    session = make_phase_sweep(late, "0.25").at("0.25", period_ns=PERIOD_NS)
    assert [job.start_ns for job in session.jobs] == [3_000_000, 3_250_000]


def test_square_waves_are_measured_as_they_are_expected(tmp_path: Path) -> None:
    found = record(tmp_path / "out", "0:1:0.2")
    assert [round(one.phase, 2) for one in found.points] == [number / 5 for number in range(6)]
    for point in found.points:
        assert point.measured == pytest.approx(point.phase % 1)
        for one in point.jobs:
            assert one.factor is not None
            assert one.factor.value == pytest.approx(one.expected, abs=1e-5)
    a, b = found.curves
    assert (a.solo_jct_ns, a.duty) == (PERIOD_NS, pytest.approx(0.4))
    assert (a.least, b.least) == (pytest.approx(1), pytest.approx(1))
    assert a.expected_area == pytest.approx(np.trapezoid([1.4, 1.2, 1, 1, 1.2, 1.4], dx=0.2))
    assert a.area == pytest.approx(a.expected_area)


def test_a_phase_that_fails_is_told_and_the_others_are_played(tmp_path: Path) -> None:
    found = record(tmp_path / "out", "0,0.25,0.5", Player(0.25))
    assert [(one.sessions, one.problem) for one in found.points] == [(1, ""), (0, "agent a0 is lost"), (1, "")]
    assert found.left == 1


def test_a_sweep_that_was_interrupted_plays_only_what_is_missing(tmp_path: Path) -> None:
    sweep, root = make_phase_sweep(TWO, "0,0.25,0.5"), tmp_path / "out"
    with pytest.raises(RunInterrupted):
        play(Player(interrupt_after=4), root, sweep)
    player = Player()
    progress = play(player, root, sweep, resume=True)
    assert player.played == ["phase=0.5/01"]
    assert [one.phase for one in progress.played] == ["0", "0.25", "0.5"]
    other = make_phase_sweep(replace(TWO, seed=9), "0")
    with pytest.raises(InputError, match="a different run spec"):
        play(Player(), root, other, resume=True)
    with pytest.raises(InputError, match="not an empty folder"):
        play(Player(), root, sweep)


@pytest.mark.parametrize(
    ("experiment", "phases", "problem"),
    [
        (TWO, "0:1", "for example 0:1:0.05"),
        (TWO, "-0.5", "a phase is from 0 to 1,000 iterations"),
        (TWO, "0,nan", "a phase is from 0 to 1,000 iterations"),
        (TWO, "inf", "a phase is from 0 to 1,000 iterations"),
        (TWO, "half", "for example 0:1:0.05"),
        (replace(TWO, jobs=TWO.jobs[:1]), "0", "needs two jobs; the run spec has 1"),
        (replace(TWO, jobs=(TWO.jobs[0], replace(TWO.jobs[1], pace=None))), "0", "job b needs `pace: continuous`"),
    ],
)
def test_what_cannot_be_swept_is_refused(experiment: Experiment, phases: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        make_phase_sweep(experiment, phases)


def test_the_page_and_the_table_have_both_curves(tmp_path: Path) -> None:
    found = record(tmp_path / "out", "0,0.5")
    curve, points, _ = phase_page(found).sections
    chart = block_of(curve, "phase", Chart)
    assert [(one["job"], one["phase"]) for one in drawn(chart, "points")] == [
        ("a", 0),
        ("b", 0),
        ("a", 0.5),
        ("b", 0.5),
    ]
    assert [round(one["factor"], 1) for one in drawn(chart, "expected")] == [1.4, 1.4, 1.0, 1.0]
    assert records(block_of(points, "results", Table))[1]["a: factor"] == "1.000"
    text = "\n".join(shown(line, width=140) for line in render_phases(found, tmp_path))
    assert "b against a over 2 phases" in text
    assert "of it 40.0 % exposed communication" in text
    assert text.count("scaled: sizes × 0.5") == 2  # noqa: RUF001
    assert any("Scaled: job a: sizes" in one for one in phase_page(found).warnings)


def test_a_job_without_an_iteration_alone_has_no_phase(tmp_path: Path) -> None:
    def play_solo(experiment: Experiment, name: str, folder: Path) -> Run:
        return write_job(folder, start_ns=0, iterations=[PERIOD_NS] * (9 if name == "a" else 1), run_id=name)

    with pytest.raises(RunError, match="job b has no complete iteration alone"):
        play_phases(
            make_phase_sweep(TWO, "0"), PhaseProgress(tmp_path), play_solo=play_solo, play_session=Player().session
        )
