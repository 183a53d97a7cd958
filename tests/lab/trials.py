"""Trials in labs, repeated: each told with its wall time, and counted. Commands beside this file use it."""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.support.star_lab import Lab, raised, star

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of a trial: a word that is counted, and more about it."""

    outcome: str
    is_wrong: bool
    about: str = ""


Play = Callable[[int], Trial]
"""Number of a trial, from 0 -> what came of it."""


def timed(number: int, play: Callable[[], T], text: Callable[[T], str]) -> T:
    """Play a trial, and say on stderr what came of it and how long it took."""
    began = time.monotonic()
    found = play()
    print(f"{number + 1:3} {time.monotonic() - began:6.1f} s  {text(found)}", file=sys.stderr, flush=True)
    return found


def measure(count: int, play: Play) -> list[Trial]:
    """Play trials, and tell each."""
    return [
        timed(number, lambda at=number: play(at), lambda one: f"{one.outcome:14} {one.about}")  # type: ignore[misc]
        for number in range(count)
    ]


def summary_text(trials: list[Trial]) -> str:
    """`20 trials: 20 TESTER-LIMITED; 0 wrong (0 %)`."""
    counts = ", ".join(f"{count} {outcome}" for outcome, count in Counter(one.outcome for one in trials).most_common())
    wrong = sum(one.is_wrong for one in trials)
    return f"{len(trials)} trials: {counts}; {wrong} wrong ({100 * wrong / max(len(trials), 1):.0f} %)"


def command(
    about: str | None, *, count: int, most_wrong: float, opened: Callable[[], AbstractContextManager[Play]]
) -> int:
    """A command that plays trials; its exit code is 1 if more than a share of them is wrong.

    Args:
        about: its help.
        count: trials by default.
        most_wrong: share.
        opened: what is needed for all trials, as a lab.
    """
    parser = argparse.ArgumentParser(description=about, allow_abbrev=False)
    parser.add_argument("--count", type=int, default=count, help="trials (default: %(default)s)")
    options = parser.parse_args()
    with opened() as play:
        trials = measure(options.count, play)
    print(summary_text(trials))
    return int(sum(one.is_wrong for one in trials) > most_wrong * options.count)


@contextmanager
def star_lab(hosts: int, *, rate: str = "200Mbit", kind: str = "bridge") -> Iterator[Lab]:
    """A lab of hosts at one switch, up."""
    with tempfile.TemporaryDirectory() as name, raised(Path(name), star(hosts, rate=rate, mtu=1500, kind=kind)) as lab:
        yield lab


def collective(number: int) -> str:
    """One drawn for each trial, the same for the same number."""
    return random.Random(number).choice(["all_to_all", "all_reduce"])
