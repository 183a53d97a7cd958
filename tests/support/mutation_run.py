"""`python -m tests.support.mutation_run`: many damaged examples of every kind of input, and what became of them.

python -m tests.support.mutation_run                      20,000 of every kind; a table
python -m tests.support.mutation_run topology --count 500 one kind
python -m tests.support.mutation_run topology --show 17   one example, with its traceback
python -m tests.support.mutation_run fields:              recordings with other values: none is passed over
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from emulator.errors import InputError
from tests.support.mutant_kinds import FIELDS, KINDS, Kind

ALL = (*KINDS, *FIELDS)
SEED = 1
COUNT = 20_000
_CHUNK = 500
_ROOM = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Memory, where there is some: a folder is made and removed for every mutant."""


@dataclass(slots=True)
class Outcome:
    """What became of the mutants of a kind.

    Attributes:
        internal: what went wrong and where → number of the first mutant, and how many.
        unclear: refusals of several lines, or that do not name the file → the same.
    """

    mutants: int = 0
    accepted: int = 0
    refused: int = 0
    seconds: float = 0
    internal: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)
    slowest: tuple[float, int] = (0, 0)

    def add(self, other: Outcome) -> None:
        """Take those of further mutants."""
        self.mutants += other.mutants
        self.accepted += other.accepted
        self.refused += other.refused
        self.seconds += other.seconds
        self.internal += other.internal
        self.first = other.first | self.first
        self.slowest = max(self.slowest, other.slowest)


def try_mutants(name: str, numbers: Iterable[int], *, seed: int = SEED) -> Outcome:
    """Try some mutants of a kind; each is the same whenever seed and number are."""
    kind, outcome = named(name), Outcome()
    began = time.perf_counter()
    with TemporaryDirectory(prefix="mutants-", dir=_ROOM) as room:
        for number in numbers:
            folder = Path(room) / "input"
            folder.mkdir()
            start = time.perf_counter()
            problem = _tried(kind, folder, Random(f"{name} {seed} {number}"), outcome)
            outcome.slowest = max(outcome.slowest, (time.perf_counter() - start, number))
            if problem:
                outcome.internal[problem] += 1
                outcome.first.setdefault(problem, number)
            shutil.rmtree(folder)
    outcome.seconds = time.perf_counter() - began
    return outcome


def _tried(kind: Kind, folder: Path, chance: Random, outcome: Outcome) -> str | None:
    """What is wrong with how a mutant was taken; None: nothing."""
    outcome.mutants += 1
    given = kind.mutant(folder, chance)
    try:
        kind.take(given)
    except InputError as error:
        outcome.refused += 1
        said = str(error)
        if "\n" in said:
            return f"several lines: {said[:60]!r}"
        if isinstance(given, Path | tuple) and not kind.name.startswith("HTTP") and str(folder) not in said:
            return f"names no file: {said[:100]!r}"
    except Exception as error:
        return _described(error)
    else:
        outcome.accepted += 1
    return None


def _described(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if "/emulator/" in one.filename or "/agents/" in one.filename] or list(frames)
    place = own[-1]
    return f"{type(error).__name__} at {place.filename.partition('/emulator/')[2]}:{place.lineno}: {str(error)[:80]!r}"


def named(name: str) -> Kind:
    """A kind by its name."""
    return next(one for one in ALL if one.name == name)


def main(words: Sequence[str] | None = None) -> int:
    """Try mutants of all kinds, or of those named; prints a table. 1: there were internal errors."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "kinds", nargs="*", metavar="KIND", help=f"part of one of: {', '.join(one.name for one in ALL)}"
    )
    parser.add_argument("--count", type=int, default=COUNT, help="mutants of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--show", type=int, metavar="NUMBER", help="one mutant, with its traceback")
    given = parser.parse_args(words)
    names = [one.name for one in ALL if not given.kinds or any(word in one.name for word in given.kinds)]
    if given.show is not None:
        return _show(named(names[0]), given.seed, given.show)
    began = time.perf_counter()
    last = given.first + given.count
    chunks = [(name, range(at, min(at + _CHUNK, last))) for name in names for at in range(given.first, last, _CHUNK)]
    found = {name: Outcome() for name in names}
    with ProcessPoolExecutor(given.jobs) as pool:
        tried = pool.map(partial(try_mutants, seed=given.seed), *zip(*chunks, strict=True))
        for (name, _), outcome in zip(chunks, tried, strict=True):
            found[name].add(outcome)
            if found[name].mutants == given.count:
                _print(name, found[name])
    print(f"{time.perf_counter() - began:.0f} s")
    return int(any(one.internal for one in found.values()))


def _print(name: str, found: Outcome) -> None:
    errors = sum(found.internal.values())
    line = (
        f"{name:<24}{found.mutants:>8}{found.accepted:>9} accepted{found.refused:>9} refused{errors:>7} internal errors"
    )
    print(f"{line}  {found.seconds / found.mutants * 1e3:.1f} ms each, longest {found.slowest[0]:.1f} s")
    for problem, count in found.internal.most_common():
        print(f"    {count:>6} ({found.first[problem]}) {problem}")
    sys.stdout.flush()


def _show(kind: Kind, seed: int, number: int) -> int:
    folder = Path(f"/tmp/mutant-{number}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    given = kind.mutant(folder, Random(f"{kind.name} {seed} {number}"))
    print(given)
    try:
        kind.take(given)
    except InputError as error:
        print(f"refused: {error}")
    except Exception:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
