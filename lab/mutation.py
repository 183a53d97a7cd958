"""Mutation testing: break the code of a room in small ways, one at a time, and list what no test notices.

    python -m lab.mutation planner|comparison|roce [--sample 60] [--seed 0]

Works in a copy of the tracked files; the working tree is never touched. A mutant that fails a test or hangs is killed.
One that passes the room's tests survives, and is printed with its diff. cosmic-ray makes the mutants; those in
annotations, which are not evaluated, are left out.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.commands.init import init
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome
from rich.progress import track

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_S = 60.0
Position = tuple[int, int]
"""(line, column) as ast counts them: from 1, and from 0."""


@dataclass(frozen=True, slots=True)
class Room:
    """Code that is broken, and the tests that should notice; paths from the project's root."""

    source: str
    tests: tuple[str, ...]


ROOMS = {
    "planner": Room("emulator/planner", ("tests/unit/planner", "tests/property/test_collectives.py")),
    "comparison": Room(
        "emulator/results/comparison", ("tests/unit/results/comparison", "tests/unit/cli/commands/test_compare.py")
    ),
    "roce": Room("emulator/roce", ("tests/unit/roce", "tests/property/test_roce_connection.py")),
}


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mutant that no test noticed."""

    where: str
    diff: str


@contextlib.contextmanager
def copied_tree(root: Path) -> Iterator[Path]:
    """A copy of the tracked files as the working directory, until the context is left."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="charkha-mutation-") as scratch:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, stdout=subprocess.PIPE, text=True)
        for name in filter(None, listed.stdout.split("\0")):
            target = Path(scratch, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, target, follow_symlinks=False)
        os.chdir(scratch)
        try:
            yield Path(scratch)
        finally:
            os.chdir(before)


def mutants(source: Path) -> list[MutationSpec]:
    """Every mutant of the modules below a folder, in a stable order."""
    modules = sorted(path for path in source.rglob("*.py") if path.stat().st_size)
    with use_db(":memory:", WorkDB.Mode.create) as found:
        init(modules, found, {})
        every = [mutation for item in found.work_items for mutation in item.mutations]
    annotated = {path: list(_annotations(ast.parse(path.read_text(encoding="utf-8")))) for path in modules}
    kept = [one for one in every if not _is_inside(one.start_pos, annotated[one.module_path])]
    return sorted(kept, key=lambda one: (str(one.module_path), one.start_pos, one.operator_name, one.occurrence))


def try_mutants(chosen: Sequence[MutationSpec], tests: Sequence[str]) -> tuple[Counter[str], list[Survivor]]:
    """Run the tests on each mutant; gives how many were killed and survived, and the survivors."""
    command = f"{sys.executable} -m pytest -x -q -p no:cacheprovider {' '.join(tests)}"
    outcomes: Counter[str] = Counter()
    survivors = []
    for mutant in track(chosen, description="testing mutants"):
        result = mutate_and_test([mutant], command, TIMEOUT_S)
        outcomes["survived" if result.test_outcome is TestOutcome.SURVIVED else "killed"] += 1
        if result.test_outcome is TestOutcome.SURVIVED:
            survivors.append(Survivor(f"{mutant.module_path}:{mutant.start_pos[0]}", result.diff or ""))
    return outcomes, survivors


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the score and the survivors; 1 if the unchanged code fails its own tests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("room", choices=ROOMS)
    parser.add_argument("--sample", type=int, metavar="N", default=60, help="mutants to draw (default: 60; 0: all)")
    parser.add_argument("--seed", type=int, metavar="N", default=0, help="random seed of the draw (default: 0)")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    room = ROOMS[args.room]
    with copied_tree(args.root):
        if subprocess.run([sys.executable, "-m", "pytest", "-x", "-q", *room.tests], stdout=sys.stderr).returncode:
            print("the tests fail without any mutant", file=sys.stderr)
            return 1
        every = mutants(Path(room.source))
        chosen = random.Random(args.seed).sample(every, min(args.sample or len(every), len(every)))
        outcomes, survivors = try_mutants(chosen, room.tests)
    for one in survivors:
        print(f"{one.where} survived\n{one.diff}\n")
    print(f"{args.room}: {outcomes['killed']} of {len(chosen)} mutants killed ({len(every)} in all)")
    return 0


def _annotations(tree: ast.AST) -> Iterator[tuple[Position, Position]]:
    """First and last position of every annotation."""
    for node in ast.walk(tree):
        for note in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if isinstance(note, ast.expr):
                yield (note.lineno, note.col_offset), (note.end_lineno or 0, note.end_col_offset or 0)


def _is_inside(position: Position, ranges: Sequence[tuple[Position, Position]]) -> bool:
    return any(begin <= position <= end for begin, end in ranges)


if __name__ == "__main__":
    sys.exit(main())
