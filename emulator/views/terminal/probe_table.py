"""Verdicts for people, as a matrix of groups and outcomes with what is not plain, and for machines."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from emulator.probe.verdict import Outcome, Verdict


def render(verdicts: Sequence[Verdict], *, every: bool = False) -> RenderableType:
    """The matrix, and below it every frame that did not simply pass; or all of them."""
    shown = [one for one in verdicts if every or one.outcome is not Outcome.PASS or one.copies > 1]
    parts: list[RenderableType] = [_matrix(verdicts)]
    if shown:
        parts += [Text(), _list(shown)]
    return Group(*parts)


def _matrix(verdicts: Sequence[Verdict]) -> Table:
    counts = Counter((one.group, one.outcome) for one in verdicts)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("frames")
    for outcome in Outcome:
        table.add_column(outcome, justify="right")
    for group in dict.fromkeys(one.group for one in verdicts):
        table.add_row(group, *(str(counts[group, outcome]) for outcome in Outcome))
    return table


def _list(verdicts: Sequence[Verdict]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in ("group", "frame", "outcome", "what"):
        table.add_column(title)
    for one in verdicts:
        copies = [f"{one.copies} came out"] if one.copies > 1 else []
        table.add_row(
            one.group, one.name, one.outcome, ", ".join([*one.changes, *copies, *([one.why] * bool(one.why))])
        )
    return table


def to_json(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """All of them, and the counts."""
    counts = Counter(one.outcome for one in verdicts)
    return {
        "counts": {outcome.value: counts[outcome] for outcome in Outcome},
        "probes": [dataclasses.asdict(one) for one in verdicts],
    }
