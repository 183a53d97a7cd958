"""What one iteration of a synthetic trace moves, for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from emulator.annexes.workloads.totals import GroupRole, SyntheticWorkload, WorkloadTotals, WorkloadTraffic
from emulator.units import NS_PER_US, format_duration, format_size
from emulator.views.columns.columns import Column, explain
from emulator.views.columns.figures import count_of
from emulator.views.terminal.table import FittedTable

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


def render(workload: SyntheticWorkload) -> RenderableType:
    """What one iteration of a synthetic trace moves, by role and operation."""
    totals = workload.totals
    title = Text(f"{workload.name}: one iteration over {count_of(totals.ranks, 'rank')}", style="bold")
    compute = format_duration(totals.compute_micros * NS_PER_US / totals.ranks)
    line = f"{count_of(totals.nodes, 'node')}, {totals.compute_nodes} of them compute: {compute} per rank on average"
    return Group(title, Text(), FittedTable(_COLUMNS, totals.traffic), Text(), Text(line))


def workload_to_json(workload: SyntheticWorkload, paths: Sequence[Path]) -> dict[str, Any]:
    """Name, parameters and traffic of a workload."""
    return {
        "workload": workload.name,
        "parameters": dict(workload.parameters),
        **_totals(workload.totals),
        "groups": len(workload.groups),
        "files": [str(path) for path in paths],
    }


def _totals(totals: WorkloadTotals) -> dict[str, Any]:
    return {
        "ranks": totals.ranks,
        "nodes": totals.nodes,
        "compute_nodes": totals.compute_nodes,
        "compute_ns": totals.compute_micros * NS_PER_US,
        "compute_micros": totals.compute_micros,  # the name of version 0.1; the next version drops it
        "traffic": [
            {
                "role": entry.role.value,
                "operation": entry.kind.label,
                "size_bytes": entry.size_bytes if entry.uneven_bytes is None else None,
                "mean_size_bytes": entry.total_bytes / entry.nodes if entry.nodes else None,
                "group_size": entry.group_size,
                "operations": entry.operations,
                "nodes": entry.nodes,
                "total_bytes": entry.total_bytes,
            }
            for entry in totals.traffic
        ],
    }
