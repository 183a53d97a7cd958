"""The summary of a trace set for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Group, RenderableType

from emulator.errors import format_ranks
from emulator.trace.analysis.summary import OperationClass, Spread, StorageUse, Summary
from emulator.trace.meaning.model import Group as ProcessGroup
from emulator.units import format_duration, format_size
from emulator.views.columns.columns import Column, explain, paragraphs
from emulator.views.columns.figures import count_cell
from emulator.views.terminal.table import FittedTable, facts_grid
from emulator.visible import visible

SHOWN_GROUPS = 12
"""Process groups listed by name; if there are more, only their number is shown."""
_OPERATIONS: tuple[Column[OperationClass], ...] = (
    Column(
        "operation",
        "kind of communication; a send counts together with its receive",
        cell=lambda one: "send + recv" if one.kind == "send" else one.kind,
        is_number=False,
    ),
    Column("group size", "ranks in the process group", key="group_size", show=count_cell),
    Column("count", "operations in the trace, over all groups", key="operations", show=count_cell),
    Column("nodes", "communication nodes over all ranks", key="nodes", show=count_cell),
    Column("payload", "sum of the sizes of the operations, each counted once", key="payload_bytes", show=format_size),
    Column(
        "over all ranks",
        "sum of the sizes over all members of the operations",
        key="payload_bytes_all_ranks",
        show=format_size,
    ),
)
_WARNINGS: tuple[Column[tuple[str, int]], ...] = (
    Column(
        "odd, but playable", "what is unusual in the trace", cell=lambda row: visible(row[0]), is_number=False, folds=40
    ),
    Column("times", "number of occurrences", cell=lambda row: f"{row[1]:,}"),
)
EXPLAIN = paragraphs(explain(_OPERATIONS, title="Operations:"), explain(_WARNINGS, title="Warnings:"))


def render(summary: Summary) -> RenderableType:
    """The report of `charkha trace check`."""
    parts: list[RenderableType] = [facts_grid(_lines(summary))]
    if summary.operations:
        columns = _OPERATIONS if summary.only is None else _OPERATIONS[:-1]  # of the others nothing is known
        parts += ["", FittedTable(columns, summary.operations)]
    if summary.warnings:
        parts += ["", FittedTable(_WARNINGS, list(summary.warnings.items()))]
    return Group(*parts)


def _lines(summary: Summary) -> Iterator[tuple[str, str]]:
    yield "ranks", f"{summary.ranks:,}" if summary.only is None else f"rank {summary.only} of {summary.ranks:,}"
    yield "nodes", f"{summary.nodes:,} ({_counts(summary.nodes_by_type)})"
    if summary.schemas:
        yield "schema", ", ".join(summary.schemas)
    yield "communication", _counts(summary.communication_nodes) or "none on the network"
    if summary.storage:
        yield "storage", ", ".join(_storage(name, use) for name, use in summary.storage.items())
    yield "process groups", _groups(summary)
    where = "every rank" if summary.only is None else f"rank {summary.only}"
    yield "compute, CPU", _per_rank(summary.cpu_ns, where)
    yield "compute, device", _per_rank(summary.device_ns, where)
    if summary.deducted_ns.most:
        yield "deducted", f"{_per_rank(summary.deducted_ns, where)}: durations that include those of called operators"
    if summary.traced_communication_ns is not None:
        yield "traced communication", _per_rank(summary.traced_communication_ns, where)
    yield "critical path", _critical_path(summary)
    if summary.dropped:
        yield "dropped", f"{summary.dropped:,} dangling dependencies"
    yield "can finish", summary.not_playable or f"proven, with a window of {summary.window:,} nodes per rank"


def _storage(name: str, use: StorageUse) -> str:
    return f"{use.operations:,} {name}{'s' if use.operations != 1 else ''} of {format_size(use.size_bytes)} in all"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _groups(summary: Summary) -> str:
    names = [f"{group.name or 'world'} ({_members(group, summary)})" for group in summary.groups]
    listed = f": {', '.join(names)}" if 0 < len(names) <= SHOWN_GROUPS else ""
    defined = f", {summary.groups_defined:,} defined" if summary.groups_defined else ""
    return f"{len(names):,} used{defined}{listed}"


def _members(group: ProcessGroup, summary: Summary) -> str:
    """How many there are; of a group with ranks that were not recorded, which."""
    return f"{len(group):,}" if summary.only is None else f"ranks {format_ranks(group.ranks)}"


def _per_rank(spread: Spread, where: str) -> str:
    if spread.least == spread.most:
        return f"{format_duration(spread.most)} on {where}"
    least, middle, most = (format_duration(value) for value in (spread.least, spread.middle, spread.most))
    return f"{least} / {middle} / {most} (least, median, most over the ranks)"


def _critical_path(summary: Summary) -> str:
    compute = f"{format_duration(summary.critical_path_compute_ns)} of compute"
    if summary.critical_path_traced_ns is None:
        return compute
    return f"{compute}, {format_duration(summary.critical_path_traced_ns)} with traced communication"
