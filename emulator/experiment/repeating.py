"""`--repeat N` and `--profiles A,B`: a run again and again, versions of the device in turns, a folder for each."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from emulator.comparison.inference import runs_to_decide
from emulator.errors import InputError, RunError, RunInterrupted
from emulator.run_folder.record import Run
from emulator.run_folder.schema import Part
from emulator.statistics.measurements import whole_iterations
from emulator.statistics.stats import median
from emulator.statistics.summary import read_measured
from emulator.units import format_duration
from emulator.views.figures import NONE
from emulator.views.terminal.console import console
from emulator.visible import visible

_ALLOWED_FAILURES = 2
"""In a row: then it is no accident."""

PlayOne = Callable[[argparse.Namespace, Path], Run]


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of many.

    Attributes:
        group: name of its group, and of the folder below --out; "" where there is one group only.
        number: within its group, from 1.
        profile: firmware profile; None without --profiles.
    """

    group: str
    number: int
    profile: str | None

    def folder(self, root: Path) -> Path:
        """Where its run folder is."""
        return root / self.group / f"{self.number:02}"

    def __str__(self) -> str:
        return f"{self.group} {self.number:02}".strip()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a turn: `problem` is None where the run is complete."""

    turn: Turn
    folder: Path
    jct_ns: float | None
    problem: str | None


def schedule(args: argparse.Namespace, *, classes: int) -> list[Turn]:
    """The turns in the order they are played: A B A B.

    Args:
        args: with `repeat` and `profiles`.
        classes: that will be compared, the iteration among them.

    Raises:
        InputError: --profile beside --profiles.
    """
    if args.profiles and getattr(args, "profile", None) is not None:
        raise InputError("give --profile or --profiles, not both")
    count = args.repeat or runs_to_decide(classes)
    groups = list(_group_names(args.profiles))
    return [Turn(group, number, profile) for number in range(1, count + 1) for group, profile in groups]


def _group_names(profiles: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """(group, profile): named after the profile's file, a number behind a name that comes again."""
    seen: Counter[str] = Counter()
    for profile in profiles:
        stem = Path(profile).stem
        seen[stem] += 1
        yield stem if seen[stem] == 1 else f"{stem}-{seen[stem]}", profile
    if not profiles:
        yield "", None


def repeat(args: argparse.Namespace, play_one: PlayOne, *, root: Path, classes: int) -> int:
    """Play all turns; prints a line per run, or JSON. A run that fails is left out of its group, the next one goes on.

    Args:
        args: of the command line.
        play_one: plays one run with these options, into this folder.
        root: the folder of all.
        classes: of the workload, the iteration among them.

    Returns:
        1 where a run failed, else 0.

    Raises:
        EmulatorError: bad input, a host that lacks something, two runs in a row that failed; what is complete stays.
        KeyboardInterrupt, RunInterrupted: the same.
    """
    turns = schedule(args, classes=classes)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise InputError(f"{root}: is not an empty folder; choose another --out")
    outcomes: list[Outcome] = []
    try:
        for turn in turns:
            print(
                f"charkha: run {len(outcomes) + 1} of {len(turns)}: {visible(str(turn.folder(root)))}", file=sys.stderr
            )
            outcomes.append(_play(args, turn, play_one, root))
            _stop_if_hopeless(outcomes)
    except BaseException:
        _show(args, root, turns, outcomes)
        raise
    _show(args, root, turns, outcomes)
    return 1 if any(one.problem for one in outcomes) else 0


def _play(args: argparse.Namespace, turn: Turn, play_one: PlayOne, root: Path) -> Outcome:
    own = argparse.Namespace(**vars(args))
    if turn.profile is not None:
        own.profile = turn.profile
    folder = turn.folder(root)
    try:
        run = play_one(own, folder)
    except RunInterrupted:
        raise
    except RunError as error:
        return Outcome(turn, folder, None, str(error))
    return Outcome(turn, folder, _jct_ns(run), None)


class _Hopeless(RunError):
    """Runs fail one after the other."""


def _stop_if_hopeless(outcomes: Sequence[Outcome]) -> None:
    last = outcomes[-_ALLOWED_FAILURES:]
    if len(last) == _ALLOWED_FAILURES and all(one.problem for one in last):
        raise _Hopeless(f"{_ALLOWED_FAILURES} runs in a row failed, the last one: {last[-1].problem}")


def _jct_ns(run: Run) -> float | None:
    times = whole_iterations(read_measured(run, Part.ITERATIONS), ranks=run.manifest.trace.ranks)
    return median(np.fromiter(times.values(), np.int64))


def _show(args: argparse.Namespace, root: Path, turns: Sequence[Turn], outcomes: Sequence[Outcome]) -> None:
    if not outcomes:
        return
    if args.json:
        print(json.dumps(_to_json(root, turns, outcomes), indent=2))
        return
    out = console()
    out.print(_table(outcomes))
    complete = sum(one.problem is None for one in outcomes)
    out.print(
        f"{complete} of {len(turns)} runs are complete. {visible(_advice(root, turns))}",
        soft_wrap=True,
        highlight=False,
    )


def _table(outcomes: Sequence[Outcome]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("run", no_wrap=True)
    table.add_column("JCT, median", justify="right", no_wrap=True)
    table.add_column("problem")
    for one in outcomes:
        jct = NONE if one.jct_ns is None else format_duration(one.jct_ns)
        table.add_row(visible(str(one.turn)), jct, visible(one.problem or NONE))
    return table


def _advice(root: Path, turns: Sequence[Turn]) -> str:
    groups = list(dict.fromkeys(turn.group for turn in turns))
    if groups == [""]:
        return f"Compare them with others: charkha compare {root} OTHER"
    return f"Compare them: charkha compare {' '.join(str(root / group) for group in groups)}"


def _to_json(root: Path, turns: Sequence[Turn], outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {
        "root": str(root),
        "groups": [str(root / group) for group in dict.fromkeys(turn.group for turn in turns)],
        "planned": len(turns),
        "complete": sum(one.problem is None for one in outcomes),
        "runs": [
            {
                "group": one.turn.group or None,
                "number": one.turn.number,
                "profile": one.turn.profile,
                "folder": str(one.folder),
                "jct_ns": one.jct_ns,
                "problem": one.problem,
            }
            for one in outcomes
        ],
    }
