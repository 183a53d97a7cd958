"""What is in a trace set, for people and for machines."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from emulator.trace.summary import Spread, Summary
from emulator.units import format_duration, format_size
from emulator.visible import visible

SHOWN_GROUPS = 12
"""Groups listed; of more only the number is shown."""


def render(summary: Summary) -> RenderableType:
    """The report of `charkha check`."""
    parts: list[RenderableType] = [_facts(summary)]
    if summary.operations:
        parts += ["", _operations(summary)]
    if summary.warnings:
        parts += ["", _warnings(summary)]
    return Group(*parts)


def to_json(summary: Summary) -> dict[str, Any]:
    """The same for machines: every field with its unit in its name."""
    content = dataclasses.asdict(summary)
    content["groups"] = [{"name": group.name, "ranks": list(group.ranks)} for group in summary.groups]
    return content


def _facts(summary: Summary) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, value in _lines(summary):
        table.add_row(name, Text(visible(value)))
    return table


def _lines(summary: Summary) -> Iterator[tuple[str, str]]:
    yield "ranks", f"{summary.ranks:,}"
    yield "nodes", f"{summary.nodes:,} ({_counts(summary.nodes_by_type)})"
    if summary.schemas:
        yield "schema", ", ".join(summary.schemas)
    yield "communication", _counts(summary.communication_nodes) or "none on the network"
    yield "process groups", _groups(summary)
    yield "compute, CPU", _per_rank(summary.cpu_ns)
    yield "compute, device", _per_rank(summary.device_ns)
    if summary.deducted_ns.most:
        yield "deducted", f"{_per_rank(summary.deducted_ns)}: durations that contained those of called operators"
    if summary.traced_communication_ns is not None:
        yield "traced communication", _per_rank(summary.traced_communication_ns)
    yield "critical path", _critical_path(summary)
    if summary.dropped:
        yield "dropped", f"{summary.dropped:,} dangling dependencies"
    yield "can finish", f"proven, with a window of {summary.window:,} nodes a rank"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _groups(summary: Summary) -> str:
    names = [f"{group.name or 'world'} ({len(group)})" for group in summary.groups]
    listed = f": {', '.join(names)}" if 0 < len(names) <= SHOWN_GROUPS else ""
    defined = f", {summary.groups_defined:,} defined" if summary.groups_defined else ""
    return f"{len(names):,} used{defined}{listed}"


def _per_rank(spread: Spread) -> str:
    if spread.least == spread.most:
        return f"{format_duration(spread.most)} on every rank"
    least, middle, most = (format_duration(value) for value in (spread.least, spread.middle, spread.most))
    return f"{least} / {middle} / {most} (least, median, most over the ranks)"


def _critical_path(summary: Summary) -> str:
    compute = f"{format_duration(summary.critical_path_compute_ns)} of compute"
    if summary.critical_path_traced_ns is None:
        return compute
    return f"{compute}, {format_duration(summary.critical_path_traced_ns)} with traced communication"


def _operations(summary: Summary) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("operation", no_wrap=True)
    for title in ("group size", "count", "nodes", "payload", "over all ranks"):
        table.add_column(title, justify="right", no_wrap=True)
    for item in summary.operations:
        sizes = (format_size(item.payload_bytes), format_size(item.payload_bytes_all_ranks))
        name = "send + recv" if item.kind == "send" else item.kind
        table.add_row(name, f"{item.group_size:,}", f"{item.operations:,}", f"{item.nodes:,}", *sizes)
    return table


def _warnings(summary: Summary) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("odd, but playable")
    table.add_column("times", justify="right")
    for name, count in summary.warnings.items():
        table.add_row(Text(visible(name)), f"{count:,}")
    return table
