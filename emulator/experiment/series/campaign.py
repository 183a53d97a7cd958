"""A campaign: cases (firmware profiles, points of a sweep) times repeats, in turns A B A B, a run folder for each.

It can be resumed: a run that is complete in its folder is not played again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from emulator.errors import RunError
from emulator.experiment.series.turns import Play, Series, Turn, TurnOutcome
from emulator.experiment.spec.spec import AUTO, Experiment
from emulator.results.comparison.inference import runs_to_decide
from emulator.results.comparison.uncertainty import over_runs
from emulator.results.run_folder.places import claimed
from emulator.results.statistics.summary import summarise
from emulator.results.statistics.uncertainty.budget import Budget

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
    def jct(self) -> Mapping[str, Budget]:
        """Group → the time of an iteration over its complete runs, which are the units of its uncertainty.

        Raises:
            ResultError: a run cannot be read.
        """
        found: dict[str, list[Budget]] = {}
        for one in self.outcomes:
            if one.played is not None and one.jct_ns and (iteration := summarise(one.played.run).iteration) is not None:
                found.setdefault(one.turn.group, []).append(iteration.uncertainty["jct_ns"])
        return {group: over_runs(np.array([one.value for one in each]), each) for group, each in found.items()}

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
            "jct": [{"group": group or None, **asdict(budget)} for group, budget in self.jct.items()],
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
