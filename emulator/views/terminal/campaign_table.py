"""The runs of a campaign for a terminal, a line each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from rich.console import RenderableType

from emulator.results.statistics.uncertainty import Budget
from emulator.views.columns.columns import Column, explain
from emulator.views.columns.figures import NONE, duration_cell
from emulator.views.terminal.table import FittedTable
from emulator.visible import visible

_Row: TypeAlias = Mapping[str, Any]
_RUNS: tuple[Column[_Row], ...] = (
    Column("run", "name of the run", cell=lambda row: visible(row["run"]), is_number=False),
    Column("JCT, median", "median time of an iteration", cell=lambda row: duration_cell(row["jct_ns"])),
    Column(
        "problem",
        "why the run failed",
        cell=lambda row: visible(row["problem"] or NONE),
        is_number=False,
        folds=20,
    ),
)


def over_runs_text(jct: Mapping[str, Budget]) -> Iterator[str]:
    """`JCT over the runs: 12.3 ms ± 40 µs (k = 2)`, a line per group; or why U is not stated."""
    for group, one in jct.items():
        stated = (
            f"U not stated: {one.why}" if one.expanded is None else f"± {duration_cell(one.expanded)} (k = {one.k})"
        )
        yield f"JCT over the runs{visible(group and f' of {group}')}: {duration_cell(one.value)} {stated}"


EXPLAIN = explain(_RUNS, title="Runs of the campaign:")


def render(runs: Sequence[Mapping[str, Any]]) -> RenderableType:
    """The table.

    Args:
        runs: a mapping per run: `run` its name, `jct_ns` the median time of an iteration, `problem` if it failed.
    """
    return FittedTable(_RUNS, runs)
