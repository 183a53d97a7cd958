"""Turns: runs and sessions that are played one after the other into one root, for campaigns, sweeps and suites.

A turn whose folder holds a complete run is not played again; what an aborted one measured is set aside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from emulator.errors import InputError, RunError, RunInterrupted
from emulator.experiment.spec.document import experiment_of_run, with_absolute_paths
from emulator.experiment.spec.spec import Experiment
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.session import StoredSession, found_session
from emulator.results.statistics.method.descriptive import median
from emulator.results.statistics.samples.iterations import iteration_durations


class Play(Protocol):
    """Plays a turn."""

    def __call__(self, experiment: Experiment, folder: Path, *, solo: bool = False) -> StoredSession:
        """Play the jobs of an experiment at once into a folder; with `solo`, each job alone first."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One run, or one session.

    Attributes:
        group: name of its group, and of the folder below the root; "" for a single group.
        name: within its group, and of its own folder.
        experiment: what is played.
        solo: each job of a session is played alone first.
    """

    group: str
    name: str
    experiment: Experiment
    solo: bool = False

    def folder(self, root: Path) -> Path:
        """Its run folder, or that of its session."""
        return root / self.group / self.name

    def __str__(self) -> str:
        return f"{self.group} {self.name}".strip()


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """The result of a turn: `problem` is None if it is complete."""

    turn: Turn
    folder: Path
    played: StoredSession | None
    problem: str | None = None

    @property
    def jct_ns(self) -> float | None:
        """Median time of an iteration of a run; None for a session, and if none is complete."""
        if self.played is None or not self.played.is_run:
            return None
        run = self.played.run
        times = iteration_durations(run.table(RunTable.ITERATIONS), run.manifest)
        return median(np.fromiter(times.values(), np.int64))


@dataclass(frozen=True, slots=True)
class Series:
    """Plays turns into a root.

    Attributes:
        root: of all folders.
        play: plays one turn.
        on_turn: called with a turn and its folder before it is played.
        has_record: a file in the root vouches that its runs have the run specs of the turns.
    """

    root: Path
    play: Play
    on_turn: Callable[[Turn, Path], None] = lambda turn, folder: None
    has_record: bool = False

    def take(self, turn: Turn) -> TurnOutcome:
        """Play a turn, unless it is complete. A run that fails is an outcome, too.

        Raises:
            EmulatorError: bad input, a complete run of another run spec, a host that lacks something.
            KeyboardInterrupt, RunInterrupted: the same; what is complete stays.
        """
        folder = turn.folder(self.root)
        played = found_session(folder)
        if played is not None and played.is_complete:
            if not self.has_record:
                _require_same(played, turn.experiment)
            return TurnOutcome(turn, folder, played)
        self.on_turn(turn, folder)
        _set_aside(folder)
        try:
            return TurnOutcome(turn, folder, self.play(turn.experiment, folder, solo=turn.solo))
        except RunInterrupted:
            raise
        except RunError as error:
            return TurnOutcome(turn, folder, None, str(error))


def _require_same(played: StoredSession, experiment: Experiment) -> None:
    """Refuse what is complete but not of this experiment: they would be taken for repeats of each other.

    Raises:
        InputError: its run spec differs, or its trace or topology has changed.
    """
    if not played.facts.spec:
        return
    if dict(played.facts.spec) != with_absolute_paths(experiment).to_plain():
        raise InputError(
            f"{played.folder}: has a run of a different run spec; resume with that one, or choose a different --out"
        )
    for run in played.jobs.values():
        experiment_of_run(run)  # the trace and the topology are the same, too


def _set_aside(folder: Path) -> None:
    """Rename an aborted run, because it has measurements."""
    attempt = 1
    while folder.exists():
        aside = folder.with_name(f"{folder.name}.aborted-{attempt}")
        if not aside.exists():
            folder.rename(aside)
        attempt += 1
