"""What an import read and what became of it, for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rich.console import Group, RenderableType

from emulator.annexes.importers.losses import Fate, Tally
from emulator.annexes.importers.model import ImportedTrace
from emulator.units import format_size
from emulator.views.columns.columns import Column, explain, paragraphs
from emulator.views.terminal.table import FittedTable, facts_grid
from emulator.visible import visible

_PLACED = (Fate.DROPPED, Fate.GUESSED)


class _Operations(NamedTuple):
    kind: str
    nodes: int
    size_bytes: int


class _Row(NamedTuple):
    fate: Fate
    what: str
    tally: Tally


_OPERATIONS: tuple[Column[_Operations], ...] = (
    Column("operation", "kind of communication", cell=lambda row: row.kind, is_number=False),
    Column("nodes", "communication nodes over all ranks", cell=lambda row: f"{row.nodes:,}"),
    Column("sum", "comm_size of all these nodes: input of each rank", cell=lambda row: format_size(row.size_bytes)),
)
_ROWS: tuple[Column[_Row], ...] = (
    Column(
        "fate",
        "mapped: a node of the trace; merged: part of nodes or dependencies; dropped: not in the trace; inferred: an "
        "order that times or records show; guessed: a fact about traffic that is not recorded",
        cell=lambda row: row.fate.value,
        is_number=False,
    ),
    Column("times", "number of records or guesses", cell=lambda row: f"{row.tally.count:,}"),
    Column("what", "kind of record", cell=lambda row: visible(row.what), is_number=False, folds=44),
    Column(
        "first",
        "file and record of the first one that was dropped or guessed (import.json has more)",
        cell=lambda row: visible(Path(row.tally.first[0]).name) if row.tally.first and row.fate in _PLACED else "",
        is_number=False,
        folds=30,
        sacrifice=1,
    ),
)
EXPLAIN = paragraphs(explain(_OPERATIONS, title="Communication:"), explain(_ROWS, title="Records:"))


def render(trace: ImportedTrace) -> RenderableType:
    """The report of `charkha trace convert` on an imported trace."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for one in trace.ranks:
        for operation in one.operations:
            counts[operation.kind.label] += 1
            sizes[operation.kind.label] += operation.size_bytes
    operations = [_Operations(kind, count, sizes[kind]) for kind, count in sorted(counts.items())]
    parts: list[RenderableType] = [facts_grid(_lines(trace))]
    if operations:
        parts += ["", FittedTable(_OPERATIONS, operations)]
    return Group(*parts, "", FittedTable(_ROWS, [_Row(*one) for one in trace.losses]))


def _lines(trace: ImportedTrace) -> Iterator[tuple[str, str]]:
    modes = Counter(one.mode for one in trace.ranks)
    found = len(trace.ranks)
    yield "ranks", f"{found:,}" + (f" of {found + len(trace.missing):,}: not playable" if trace.missing else "")
    yield "read from", ", ".join(f"{mode} ({count})" for mode, count in sorted(modes.items()))
    yield "nodes", f"{sum(len(one.nodes) for one in trace.ranks):,}"
