"""A trace that was just written: its files, and for a synthetic one the traffic it describes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from emulator.planner.workloads.node import SyntheticWorkload, Totals, Traffic
from emulator.units import NS_PER_US, format_duration, format_size
from emulator.visible import visible

EXPLAIN = """\
role       why these ranks communicate: tensor, pipeline, data, embedding or world
operation  the collective, send or recv
comm_size  Chakra's size of one node: input bytes per rank
ranks      ranks that take part in one operation
count      operations in one iteration, over all groups
nodes      communication nodes of all ranks: count times ranks
sum        bytes: comm_size over all these nodes"""


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
    title = f"{workload.name}: one iteration over {totals.ranks} ranks"
    table = Table("role", "operation", box=SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for heading in ("comm_size", "ranks", "count", "nodes", "sum"):
        table.add_column(heading, justify="right")
    for entry in totals.traffic:
        table.add_row(*_cells(entry))
    compute = format_duration(totals.compute_micros * NS_PER_US / totals.ranks)
    line = f"{totals.nodes} nodes, {totals.compute_nodes} of them compute: {compute} per rank on average"
    return Group(table, Text(line))


def _cells(entry: Traffic) -> tuple[str, ...]:
    return (
        entry.role.value,
        entry.kind.label,
        format_size(entry.size_bytes),
        str(entry.group_size),
        str(entry.operations),
        str(entry.nodes),
        format_size(entry.total_bytes),
    )


def to_json(workload: SyntheticWorkload, paths: Sequence[Path]) -> dict[str, object]:
    """The same for machines, with the parameters of the workload."""
    return {
        "workload": workload.name,
        "parameters": dict(workload.parameters),
        **_totals(workload.totals),
        "groups": len(workload.groups),
        "files": [str(path) for path in paths],
    }


def _totals(totals: Totals) -> dict[str, object]:
    return {
        "ranks": totals.ranks,
        "nodes": totals.nodes,
        "compute_nodes": totals.compute_nodes,
        "compute_micros": totals.compute_micros,
        "traffic": [
            {
                "role": entry.role.value,
                "operation": entry.kind.label,
                "size_bytes": entry.size_bytes,
                "group_size": entry.group_size,
                "operations": entry.operations,
                "nodes": entry.nodes,
                "total_bytes": entry.total_bytes,
            }
            for entry in totals.traffic
        ],
    }
