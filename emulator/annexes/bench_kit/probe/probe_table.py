"""Verdicts of a probe for a terminal: counts per group and outcome, then every frame that did not simply pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

from rich.console import Group, RenderableType
from rich.text import Text

from emulator.annexes.bench_kit.probe.verdict import FrameOutcome, FrameVerdict
from emulator.views.columns.columns import Column, explain, paragraphs
from emulator.views.terminal.table import FittedTable

_Row: TypeAlias = tuple[str, Counter[FrameOutcome]]
_MEANINGS = {
    FrameOutcome.PASS: "left the DUT unchanged, or routed (MAC addresses and TTL changed)",
    FrameOutcome.ALTERED: "left with other fields changed",
    FrameOutcome.DROPPED: "did not come out",
    FrameOutcome.NOT_SENT: "could not be sent; the list below the matrix gives the reason",
}


def _count(outcome: FrameOutcome) -> Callable[[_Row], str]:
    return lambda row: str(row[1][outcome])


_MATRIX: tuple[Column[_Row], ...] = (
    Column("frames", "group of similar frames", cell=lambda row: row[0], is_number=False),
    *(Column(outcome.value, f"frames that {_MEANINGS[outcome]}", cell=_count(outcome)) for outcome in FrameOutcome),
)
_LIST: tuple[Column[FrameVerdict], ...] = (
    Column("group", "group of similar frames", cell=lambda one: one.group, is_number=False),
    Column("frame", "what distinguishes the frame", cell=lambda one: one.name, is_number=False, folds=20),
    Column("outcome", "as in the matrix", cell=lambda one: one.outcome.value, is_number=False),
    Column(
        "what",
        "changed fields with their values before and after, copies, or why it was not sent",
        cell=lambda one: _details(one),
        is_number=False,
        folds=20,
    ),
)
EXPLAIN = paragraphs(
    explain(_MATRIX, title="Counts:"),
    explain(_LIST, title="Frames that did not simply pass; every frame with --all:"),
)


def render(verdicts: Sequence[FrameVerdict], *, every: bool = False) -> RenderableType:
    """The verdicts for a console.

    Args:
        every: list every frame, not only those that did not simply pass.
    """
    shown = [one for one in verdicts if every or one.outcome is not FrameOutcome.PASS or one.copies > 1]
    parts: list[RenderableType] = [FittedTable(_MATRIX, _groups(verdicts))]
    if shown:
        parts += [Text(), FittedTable(_LIST, shown)]
    return Group(*parts)


def _groups(verdicts: Sequence[FrameVerdict]) -> list[_Row]:
    found: dict[str, Counter[FrameOutcome]] = {}
    for one in verdicts:
        found.setdefault(one.group, Counter())[one.outcome] += 1
    return list(found.items())


def _details(one: FrameVerdict) -> str:
    copies = [f"{one.copies} came out"] if one.copies > 1 else []
    return ", ".join([*one.changes, *copies, *([one.why] * bool(one.why))])
