"""A trace that was just written: its files, and for a synthetic one the traffic it describes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from emulator.trace.synthetic.synthetic import GroupRole, SyntheticWorkload, WorkloadTraffic
from emulator.units import NS_PER_US, format_duration, format_size
from emulator.views.columns.columns import Column, explain
from emulator.views.columns.figures import count_of
from emulator.views.terminal.table import FittedTable
from emulator.visible import visible

_COLUMNS: tuple[Column[WorkloadTraffic], ...] = (
    Column(
        "role",
        f"why the ranks communicate: {', '.join(role.value for role in GroupRole)}",
        cell=lambda row: row.role.value,
        is_number=False,
    ),
    Column("operation", "collective, send or recv", cell=lambda row: row.kind.label, is_number=False),
    Column(
        "comm_size",
        "size of one node as counted by Chakra: input of one rank; ~ the mean, if nodes differ",
        cell=lambda row: f"{'' if row.uneven_bytes is None else '~'}{format_size(row.size_bytes)}",
    ),
    Column("ranks", "ranks in one operation", key="group_size"),
    Column("count", "operations in one iteration, over all groups", key="operations"),
    Column("nodes", "communication nodes of all ranks", key="nodes"),
    Column("sum", "comm_size of all these nodes", key="total_bytes", show=format_size),
)
EXPLAIN = explain(_COLUMNS, title="Communication of one iteration:")


def files_line(paths: Sequence[Path]) -> str:
    """The folder, the first and the last trace file, and every other file.

    Args:
        paths: the .et files by rank and other files, all in one folder.
    """
    traces = [path.name for path in paths if path.suffix == ".et"]
    span = traces[0] if len(traces) == 1 else f"{traces[0]} to {traces[-1]}"
    others = [path.name for path in paths if path.suffix != ".et"]
    return visible(f"{paths[0].parent}: {', '.join([span, *others])}")


def render(workload: SyntheticWorkload) -> RenderableType:
    """What one iteration of a synthetic trace moves, by role and operation."""
    totals = workload.totals
    title = Text(f"{workload.name}: one iteration over {count_of(totals.ranks, 'rank')}", style="bold")
    compute = format_duration(totals.compute_micros * NS_PER_US / totals.ranks)
    line = f"{count_of(totals.nodes, 'node')}, {totals.compute_nodes} of them compute: {compute} per rank on average"
    return Group(title, Text(), FittedTable(_COLUMNS, totals.traffic), Text(), Text(line))
