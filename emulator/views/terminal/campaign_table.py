"""The runs of a campaign for a terminal, a line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from rich.console import RenderableType

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


EXPLAIN = explain(_RUNS, title="Runs of the campaign:")


def render(runs: Sequence[Mapping[str, Any]]) -> RenderableType:
    """The table.

    Args:
        runs: a mapping per run: `run` its name, `jct_ns` the median time of an iteration, `problem` if it failed.
    """
    return FittedTable(_RUNS, runs)
