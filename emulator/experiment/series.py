"""Runs and sessions that are played in turns into one root: for campaigns, sweeps and suites.

A turn whose folder holds a complete run is not played again; what an aborted one measured is set aside. A campaign is
cases (firmware profiles, points of a sweep) times repeats, in turns A B A B, a run folder for each; it can be resumed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from msgspec.structs import replace

from emulator.errors import InputError, RunError, RunInterrupted
from emulator.experiment.spec.document import experiment_of_run, with_absolute_paths
from emulator.experiment.spec.spec import AUTO, Experiment
from emulator.results.comparison.inference import runs_to_decide
from emulator.results.run_folder.places import claimed
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


_ALLOWED_FAILURES = 2
"""In a row. More are not a coincidence, and end the campaign."""


@dataclass(slots=True)
class CampaignProgress:
    """What has been played so far; stays readable when the campaign ends early."""

    root: Path
    turns: Sequence[Turn]
    outcomes: list[TurnOutcome] = field(default_factory=list)

    @property
    def complete(self) -> int:
        """Number of complete runs."""
        return sum(one.problem is None for one in self.outcomes)

    @property
    def groups(self) -> list[Path]:
        """Folder of each group, in order."""
        return [self.root / name for name in dict.fromkeys(turn.group for turn in self.turns)]

    @property
    def advice(self) -> str:
        """How many runs are complete, and the command that compares them."""
        one_group = self.groups == [self.root]
        folders = f"{self.root} OTHER" if one_group else " ".join(map(str, self.groups))
        advice = f"Compare them{' with others' if one_group else ''}: charkha compare {folders}"
        return f"{self.complete} of {len(self.turns)} runs are complete. {advice}"

    def to_plain(self) -> dict[str, Any]:
        """The outcome for machines; times in ns."""
        return {
            "root": str(self.root),
            "groups": [str(folder) for folder in self.groups],
            "planned": len(self.turns),
            "complete": self.complete,
            "runs": [
                {
                    "run": str(one.turn),
                    "group": one.turn.group or None,
                    "number": int(one.turn.name),
                    "profile": one.turn.experiment.device.profile,
                    "folder": str(one.folder),
                    "jct_ns": one.jct_ns,
                    "problem": one.problem,
                }
                for one in self.outcomes
            ],
        }


def schedule(experiment: Experiment, *, classes: int) -> list[Turn]:
    """The turns of an experiment with a campaign, in the order they are played: A B A B.

    Args:
        experiment: with a campaign.
        classes: number of classes to compare, including the iteration; determines the number of runs for "auto".
    """
    campaign = experiment.campaign
    assert campaign is not None
    repeat = runs_to_decide(classes) if campaign.repeat == AUTO else campaign.repeat
    one = replace(experiment, campaign=None)
    cases = {
        group: replace(one, device=replace(one.device, profile=profile))
        for group, profile in groups_of(campaign.profiles)
    }
    return in_turns(cases or {"": one}, repeat=repeat)


def in_turns(cases: Mapping[str, Experiment], *, repeat: int) -> list[Turn]:
    """Every case (by the name of its group) `repeat` times, in turns."""
    return [Turn(group, f"{number:02}", one) for number in range(1, repeat + 1) for group, one in cases.items()]


def play_campaign(
    play: Play,
    progress: CampaignProgress,
    *,
    resume: bool = False,
    on_turn: Callable[[int, Turn], None] = lambda number, turn: None,
    allowed_failures: int = _ALLOWED_FAILURES,
) -> None:
    """Play all turns. A run that fails does not count, and the next one is played.

    Args:
        play: plays one run.
        progress: receives the outcome of every turn.
        resume: continue in a root with runs: complete ones are kept, others are played again.
        on_turn: called before each turn with its number, from 1.
        allowed_failures: so many runs in a row that fail end the campaign.

    Raises:
        EmulatorError: bad input, a folder in use or with a run of another run spec, a host that lacks something, too
            many failed runs in a row; what is complete stays.
        KeyboardInterrupt, RunInterrupted: the same.
    """
    series = Series(progress.root, play, lambda turn, _: on_turn(len(progress.outcomes) + 1, turn))
    with claimed(progress.root, is_new=not resume):
        for turn in progress.turns:
            progress.outcomes.append(series.take(turn))
            _stop_if_hopeless(progress.outcomes, allowed_failures)


def groups_of(profiles: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(group, profile): named after the file of the profile, with a number if the name repeats."""
    seen: Counter[str] = Counter()
    for profile in profiles:
        stem = Path(profile).stem
        seen[stem] += 1
        yield stem if seen[stem] == 1 else f"{stem}-{seen[stem]}", profile


class _Hopeless(RunError):
    """Too many runs in a row failed."""


def _stop_if_hopeless(outcomes: Sequence[TurnOutcome], allowed_failures: int) -> None:
    last = outcomes[-allowed_failures:]
    if len(last) == allowed_failures and all(one.problem for one in last):
        raise _Hopeless(f"{allowed_failures} runs in a row failed; the last one: {last[-1].problem}")
