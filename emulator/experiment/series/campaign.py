"""A campaign: cases (firmware profiles, points of a sweep) times repeats, in turns A B A B, a run folder for each.

It can be resumed: a run that is complete in its folder is not played again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from emulator.errors import InputError, RunError, RunInterrupted
from emulator.experiment.spec.absolute_paths import with_absolute_paths
from emulator.experiment.spec.document import experiment_of_run
from emulator.experiment.spec.spec import AUTO, Experiment
from emulator.results.comparison.inference import runs_to_decide
from emulator.results.run_folder.claim import claimed
from emulator.results.run_folder.manifest import COMPLETE
from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.schema import Part
from emulator.results.run_folder.session import Session, complete_session
from emulator.results.run_folder.store import is_run_folder
from emulator.results.statistics.method.descriptive import median
from emulator.results.statistics.samples.iterations import iteration_durations

_ALLOWED_FAILURES = 2
"""In a row. More are not a coincidence, and end the campaign."""

PlayOne = Callable[[Experiment, Path], Run | Session]
"""Plays a run, or a session of several jobs, into a folder."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of a campaign.

    Attributes:
        group: name of its group, and of the folder below the root; "" for a single group.
        number: within its group, from 1.
        experiment: what is played.
    """

    group: str
    number: int
    experiment: Experiment

    def folder(self, root: Path) -> Path:
        """Its run folder."""
        return root / self.group / f"{self.number:02}"

    def __str__(self) -> str:
        return f"{self.group} {self.number:02}".strip()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a turn: `problem` is None if it is complete; `jct_ns` is the median of a run, None of a session."""

    turn: Turn
    folder: Path
    jct_ns: float | None
    problem: str | None


@dataclass(slots=True)
class CampaignProgress:
    """What has been played so far; stays readable when the campaign ends early."""

    root: Path
    turns: Sequence[Turn]
    outcomes: list[Outcome] = field(default_factory=list)

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
                    "number": one.turn.number,
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
        for group, profile in _groups(campaign.profiles)
    }
    return in_turns(cases or {"": one}, repeat=repeat)


def in_turns(cases: Mapping[str, Experiment], *, repeat: int) -> list[Turn]:
    """Every case (by the name of its group) `repeat` times, in turns."""
    return [Turn(group, number, one) for number in range(1, repeat + 1) for group, one in cases.items()]


def play_campaign(
    play_one: PlayOne,
    progress: CampaignProgress,
    *,
    resume: bool = False,
    on_turn: Callable[[int, Turn], None] = lambda number, turn: None,
    allowed_failures: int = _ALLOWED_FAILURES,
) -> None:
    """Play all turns. A run that fails does not count, and the next one is played.

    Args:
        play_one: plays one run.
        progress: receives the outcome of every turn.
        resume: continue in a root with runs: complete ones are kept, others are played again.
        on_turn: called before each turn with its number, from 1.
        allowed_failures: so many runs in a row that fail end the campaign.

    Raises:
        EmulatorError: bad input, a folder in use or with a run of another run spec, a host that lacks something, too
            many failed runs in a row; what is complete stays.
        KeyboardInterrupt, RunInterrupted: the same.
    """
    root = progress.root
    with claimed(root, is_new=not resume):
        for number, turn in enumerate(progress.turns, 1):
            done = _complete(turn, root) if resume else None
            if done is not None:
                progress.outcomes.append(_outcome(turn, done))
                continue
            on_turn(number, turn)
            progress.outcomes.append(_play(turn, play_one, root))
            _stop_if_hopeless(progress.outcomes, allowed_failures)


def jct_ns(run: Run) -> float | None:
    """Median time of an iteration; None if none is complete."""
    times = iteration_durations(run.table(Part.ITERATIONS), run.manifest)
    return median(np.fromiter(times.values(), np.int64))


def _groups(profiles: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(group, profile): named after the file of the profile, with a number if the name repeats."""
    seen: Counter[str] = Counter()
    for profile in profiles:
        stem = Path(profile).stem
        seen[stem] += 1
        yield stem if seen[stem] == 1 else f"{stem}-{seen[stem]}", profile


def _complete(turn: Turn, root: Path) -> Run | Session | None:
    """What is complete in the folder of a turn and is of its run spec."""
    folder = turn.folder(root)
    if len(turn.experiment.jobs) == 1:
        run = complete_run(folder)
        if run is not None:
            require_same(run, turn.experiment)
        return run
    session = complete_session(folder)
    if session is not None:
        _require_spec(session.facts.spec, turn.experiment, folder)
    return session


def _outcome(turn: Turn, played: Run | Session) -> Outcome:
    return Outcome(turn, played.folder, jct_ns(played) if isinstance(played, Run) else None, None)


def require_same(run: Run, experiment: Experiment) -> None:
    """Refuse a complete run that is not one of this experiment: they would be taken for repeats of each other.

    Raises:
        InputError: its run spec differs, or its trace or topology has changed.
    """
    spec = run.manifest.spec
    if spec is None:
        return
    _require_spec(spec, experiment, run.folder)
    experiment_of_run(run)  # the trace and the topology are the same, too


def _require_spec(spec: Mapping[str, Any], experiment: Experiment, folder: Path) -> None:
    if dict(spec) != with_absolute_paths(experiment).to_plain():
        raise InputError(
            f"{folder}: has a run of a different run spec; resume with that one, or choose a different --out"
        )


def complete_run(folder: Path) -> Run | None:
    """The complete run in a folder; None if there is none."""
    if not is_run_folder(folder):
        return None
    found = read_run(folder)
    return found if found.manifest.status == COMPLETE else None


def _play(turn: Turn, play_one: PlayOne, root: Path) -> Outcome:
    folder = free_folder(turn.folder(root))
    try:
        return _outcome(turn, play_one(turn.experiment, folder))
    except RunInterrupted:
        raise
    except RunError as error:
        return Outcome(turn, folder, None, str(error))


def free_folder(folder: Path) -> Path:
    """The folder; an aborted run in it is renamed, because it has measurements."""
    attempt = 1
    while folder.exists() and (aside := folder.with_name(f"{folder.name}.aborted-{attempt}")):
        if not aside.exists():
            folder.rename(aside)
        attempt += 1
    return folder


class _Hopeless(RunError):
    """Too many runs in a row failed."""


def _stop_if_hopeless(outcomes: Sequence[Outcome], allowed_failures: int) -> None:
    last = outcomes[-allowed_failures:]
    if len(last) == allowed_failures and all(one.problem for one in last):
        raise _Hopeless(f"{allowed_failures} runs in a row failed; the last one: {last[-1].problem}")
