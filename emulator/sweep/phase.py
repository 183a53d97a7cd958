"""A sweep over the phase of two jobs: how long after the first the second begins, in iterations of the first alone.

DIR/sweep.json, DIR/report.html
DIR/solo/01/job=a/           a job alone, at its places; its JCT is what the phase is a share of
DIR/phase=0.05/01/           a session of both jobs
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from emulator.errors import InputError, RunError, RunInterrupted
from emulator.experiment.absolute_paths import with_absolute_paths
from emulator.experiment.campaign import complete_run, free_folder, jct_ns, require_same
from emulator.experiment.spec import Experiment
from emulator.run_folder.claim import claimed
from emulator.run_folder.reader import Run
from emulator.run_folder.session import Session, complete_session, job_folder
from emulator.sweep.axis import parse_values

PlaySession = Callable[[Experiment, Path], Session]
"""Plays a session into a folder."""
PlaySolo = Callable[[Experiment, str, Path], Run]
"""Plays the job of this name alone into a folder, at the places that it has in the session."""
_CONTINUOUS = "continuous"
_LATEST = 1000
"""Phase: later, the second job would hardly meet the first."""


@dataclass(frozen=True, slots=True)
class PhaseSweep:
    """A sweep over the phase of two jobs.

    Attributes:
        experiment: of both.
        phases: at least 0, in iterations of the first job alone, as text.
        repeat: sessions of each phase, and runs of each job alone.
    """

    experiment: Experiment
    phases: Sequence[str]
    repeat: int = 1

    @property
    def steps(self) -> int:
        """Runs alone and sessions."""
        return self.repeat * (len(self.names) + len(self.phases))

    @property
    def names(self) -> tuple[str, str]:
        """Of the job that stays, and of the job whose start is moved."""
        first, second = self.experiment.jobs
        return first.name, second.name

    def at(self, phase: str, *, period_ns: float) -> Experiment:
        """The session in which the second job begins at this phase."""
        first, second = self.experiment.jobs
        offset_ns = first.start_ns + round(float(phase) * period_ns)
        return replace(self.experiment, jobs=(first, replace(second, start=f"{offset_ns}ns")))


@dataclass(frozen=True, slots=True)
class Played:
    """A session of a phase: `session` is None if it failed, `problem` says why."""

    phase: str
    session: Session | None
    problem: str = ""


@dataclass(slots=True)
class PhaseProgress:
    """What has been played so far; stays readable when the sweep ends early.

    Attributes:
        root: folder of the sweep.
        solo: name of a job → its runs alone.
        played: sessions in the order they were played.
    """

    root: Path
    solo: dict[str, list[Run]] = field(default_factory=dict)
    played: list[Played] = field(default_factory=list)


def make_phase_sweep(experiment: Experiment, text: str, *, repeat: int = 1) -> PhaseSweep:
    """A sweep over phases from text, as `0:1:0.05`.

    Raises:
        InputError: not phases, or not two jobs whose iterations follow each other without a gap.
    """
    try:
        phases = parse_values(text)
        if not all(0 <= float(phase) <= _LATEST for phase in phases):  # NaN is in no range
            raise ValueError(f"a phase is from 0 to {_LATEST:,} iterations")
    except ValueError as error:
        raise InputError(f"--phase {text}: {error}; for example 0:1:0.05") from error
    if len(experiment.jobs) != 2:
        raise InputError(f"--phase needs two jobs; the run spec has {len(experiment.jobs)}")
    for job in experiment.jobs:
        if job.pace != _CONTINUOUS:
            raise InputError(
                f"--phase: job {job.name} needs `pace: {_CONTINUOUS}`: with a barrier, the gaps between iterations "
                "move the jobs against each other"
            )
    return PhaseSweep(experiment, phases, repeat)


def play_phases(
    sweep: PhaseSweep,
    progress: PhaseProgress,
    *,
    play_solo: PlaySolo,
    play_session: PlaySession,
    resume: bool = False,
    on_run: Callable[[int, Path], None] = lambda number, folder: None,
) -> None:
    """Play every job alone, then both at every phase; then all of it again. What is complete is not played twice.

    Args:
        sweep: to play.
        progress: receives what was played; its root is empty or missing, unless `resume`.
        play_solo, play_session: play one run of a job alone, and one session.
        resume: continue in a folder of this sweep.
        on_run: called before each with its number, from 1, and its folder.

    Raises:
        EmulatorError: bad input, a job that fails alone, a host that lacks something; what is complete stays.
        KeyboardInterrupt, RunInterrupted: the same.
    """
    root, solo = progress.root, progress.solo
    steps = itertools.count(1)
    with claimed(root, is_new=not resume):
        for number in range(1, sweep.repeat + 1):
            for name in sweep.names:
                folder = job_folder(root / "solo" / f"{number:02}", name)
                announce = partial(on_run, next(steps))
                solo.setdefault(name, []).append(_solo(sweep.experiment, name, folder, play_solo, announce))
            period_ns, _ = (_period_ns(solo[name][0], name) for name in sweep.names)
            for phase in sweep.phases:
                folder = root / f"phase={phase}" / f"{number:02}"
                session = sweep.at(phase, period_ns=period_ns)
                announce = partial(on_run, next(steps))
                progress.played.append(_session(session, phase, folder, play_session, announce))


def _period_ns(run: Run, name: str) -> float:
    found = jct_ns(run)
    if not found:
        raise RunError(f"job {name} has no complete iteration alone: there is no phase to sweep")
    return found


def _solo(experiment: Experiment, name: str, folder: Path, play: PlaySolo, on_run: Callable[[Path], None]) -> Run:
    done = complete_run(folder)
    if done is not None:
        require_same(done, experiment.for_job(name))
        return done
    on_run(free_folder(folder))
    return play(experiment, name, folder)


def _session(
    experiment: Experiment, phase: str, folder: Path, play: PlaySession, on_run: Callable[[Path], None]
) -> Played:
    done = complete_session(folder)
    if done is not None:
        if dict(done.facts.spec) != with_absolute_paths(experiment).to_plain():
            raise InputError(
                f"{folder}: has a session of a different run spec; resume with that one, or choose a different --out"
            )
        return Played(phase, done)
    on_run(free_folder(folder))
    try:
        return Played(phase, play(experiment, folder))
    except RunInterrupted:
        raise
    except RunError as error:
        return Played(phase, None, str(error))
