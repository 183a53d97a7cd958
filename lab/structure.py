"""`python -m lab.structure`: how large the house is, and how its rooms depend on one another.

A room is a folder of `emulator`, or `agents`, or `charkha`; modules that lie beside the rooms are the ground. Annexes
are those of `emulator` and of `agents`; they are no part of the core. Lines are those of Python files, as `wc -l`
counts them; generated code is left out. `--brief` prints three lines.
"""

from __future__ import annotations

import argparse
import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("emulator", "agents", "charkha")
ANNEXES = "annexes"
MOST_FILES = 20
GROUND = "ground"
START = "__main__"
"""The module beside the rooms that starts the command line; it belongs to its room."""


def python_files(*folders: str) -> list[Path]:
    """The Python files below some folders of the repository, without generated ones."""
    return sorted(
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if "_pb" not in path.relative_to(ROOT).parts
    )


def lines(paths: Sequence[Path]) -> int:
    """Their lines, comments and blanks included."""
    return sum(path.read_bytes().count(b"\n") for path in paths)


def room(module: str) -> str:
    """The room that a module is in."""
    package, *rest = module.split(".")
    if rest and rest[0] == ANNEXES:
        return ANNEXES
    if package != "emulator":
        return package
    if rest and rest[0] == START:
        return "cli"
    return rest[0] if len(rest) > 1 or (rest and (ROOT / "emulator" / rest[0]).is_dir()) else GROUND


def arrows() -> dict[str, set[str]]:
    """Room → the rooms that it imports."""
    graph = grimp.build_graph(*SOURCES, cache_dir=None)
    found: defaultdict[str, set[str]] = defaultdict(set)
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            if room(importer) != room(imported):
                found[room(importer)].add(room(imported))
    return dict(found)


def circle(rooms: dict[str, set[str]]) -> list[str]:
    """Rooms that import one another in a circle; empty: there is none."""
    try:
        TopologicalSorter(rooms).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def class_names(paths: Sequence[Path]) -> Counter[str]:
    """Name of a class → how many modules define one at their top."""
    return Counter(
        node.name for path in paths for node in ast.parse(path.read_bytes()).body if isinstance(node, ast.ClassDef)
    )


def figures() -> Iterator[tuple[str, str]]:
    """What is counted, and the count."""
    source, tests = python_files(*SOURCES), python_files("tests")
    annexes = [path for path in source if path.relative_to(ROOT).parts[1] == ANNEXES]
    yield "lines of source", f"{lines(source):,}"
    yield "of them core", f"{lines(source) - lines(annexes):,}"
    yield "lines of tests", f"{lines(tests):,}"
    rooms = arrows()
    core = sorted({*rooms, *(name for found in rooms.values() for name in found)} - {ANNEXES, GROUND, "_pb"})
    yield "modules", f"{len(source):,}"
    yield "rooms of the core", f"{len(core)}: {' '.join(core)}"
    yield "arrows between rooms", str(sum(map(len, rooms.values())))
    yield "circle of rooms", " → ".join(circle(rooms)) or "none"
    yield (
        "rooms that import annexes",
        ", ".join(sorted(name for name, found in rooms.items() if ANNEXES in found)) or "none",
    )
    large = [
        f"{folder.relative_to(ROOT)} {count}"
        for folder, count in Counter(path.parent for path in source if path.name != "__init__.py").items()
        if count > MOST_FILES
    ]
    yield f"folders of more than {MOST_FILES} files", ", ".join(sorted(large)) or "none"
    shared = {name: count for name, count in class_names(source).items() if count > 1}
    most = ", ".join(f"{name} {count}" for name, count in sorted(shared.items(), key=lambda one: (-one[1], one[0]))[:8])
    yield "class names in several modules", f"{len(shared)}{f': {most} …' if most else ''}"


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brief", action="store_true", help="three lines")
    args = parser.parse_args()
    known = dict(figures())
    if args.brief:
        print(
            f"source {known['lines of source']} (core {known['of them core']}), tests {known['lines of tests']} lines"
        )
        print(f"{known['modules']} modules, {known['arrows between rooms']} arrows, circle: {known['circle of rooms']}")
        print(f"class names in several modules: {known['class names in several modules'].partition(':')[0]}")
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in known.items():
        table.add_row(name, value)
    Console().print(table)


if __name__ == "__main__":
    main()
