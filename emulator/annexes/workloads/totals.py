"""Synthetic workloads that count what they generate, one iteration of the whole world by role, kind and size; and these
totals as a table and as JSON.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from emulator.trace.meaning.model import CommKind, NodeType
from emulator.trace.synthetic.synthetic import FileCall, NodeStreams, WorkNode
from emulator.units import NS_PER_US, format_duration, format_size
from emulator.views.columns.columns import Column, explain
from emulator.views.columns.figures import count_of
from emulator.views.terminal.table import FittedTable


class GroupRole(Enum):
    """What a process group is for."""

    TENSOR = "tensor"
    PIPELINE = "pipeline"
    DATA = "data"
    EMBEDDING = "embedding"
    CONTEXT = "context"
    EXPERT = "expert"
    EXPERT_DATA = "expert data"
    DISPATCH = "dispatch"
    COMBINE = "combine"
    STORAGE = "storage"
    KEY_VALUE = "key-value"
    WORLD = "world"


@dataclass(frozen=True, slots=True)
class WorkloadTraffic:
    """Communication of one role, kind and size in one iteration of the whole world.

    Attributes:
        size_bytes: comm_size of each node, or bytes of a file operation; of uneven ones the mean, rounded.
        group_size: ranks that take part in one operation; a send and its receive are two operations of one rank each.
        operations: number of collectives, sends or receives.
        uneven_bytes: sum of comm_size over nodes whose sizes differ; None: they are equal.
    """

    role: GroupRole
    kind: CommKind
    size_bytes: int
    group_size: int
    operations: int
    uneven_bytes: int | None = None

    @classmethod
    def uneven(
        cls, role: GroupRole, kind: CommKind, group_size: int, operations: int, total_bytes: int
    ) -> WorkloadTraffic:
        """Operations of different sizes: `total_bytes` is the sum of comm_size over all nodes."""
        mean = round(total_bytes / (group_size * operations)) if operations else 0
        return cls(role, kind, mean, group_size, operations, total_bytes)

    @property
    def nodes(self) -> int:
        """Number of communication nodes of all ranks."""
        return self.operations * self.group_size

    @property
    def total_bytes(self) -> int:
        """Sum of comm_size over those nodes."""
        return self.nodes * self.size_bytes if self.uneven_bytes is None else self.uneven_bytes


@dataclass(frozen=True, slots=True)
class WorkloadTotals:
    """Totals of one iteration of the whole world.

    Attributes:
        nodes: nodes of all ranks, compute and communication.
        compute_micros: sum of the durations of all compute nodes, µs.
        traffic: communication by role, kind and size.
    """

    ranks: int
    nodes: int
    compute_nodes: int
    compute_micros: int
    traffic: tuple[WorkloadTraffic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticWorkload(NodeStreams):
    """A synthetic workload, which counts what it generates.

    Attributes:
        role: (rank, node that communicates) → why it does.
        alike: rank → how many ranks do the same, itself among them; None: they differ.
        counts: of the ranks whose nodes were generated.
    """

    role: Callable[[int, WorkNode], GroupRole]
    alike: Mapping[int, int] | None = None
    counts: dict[int, _Count] = field(default_factory=dict, init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", partial(self._counted, self.nodes))

    @property
    def totals(self) -> WorkloadTotals:
        """Totals of one iteration; ranks that were not written are generated for it, one of those that are alike."""
        alike = self.alike if self.alike is not None else dict.fromkeys(range(self.ranks), 1)
        nodes = compute_nodes = compute_micros = 0
        kinds: Counter[_Kind] = Counter()
        sums: Counter[_Kind] = Counter()
        for rank, times in alike.items():
            if rank not in self.counts:
                deque(self.nodes(rank), maxlen=0)
            count = self.counts[rank]
            nodes += times * count.nodes
            compute_nodes += times * count.compute_nodes
            compute_micros += times * count.compute_micros
            for kind, number in count.kinds.items():
                kinds[kind] += times * number
                sums[kind] += times * count.sums[kind]
        order = list(GroupRole)
        chosen = sorted(kinds, key=lambda kind: order.index(kind.role))
        traffic = tuple(_traffic(kind, kinds[kind], sums[kind]) for kind in chosen)
        return WorkloadTotals(self.ranks, nodes, compute_nodes, compute_micros, traffic)

    def _counted(self, nodes: Callable[[int], Iterator[WorkNode]], rank: int) -> Iterator[WorkNode]:
        if self.alike is not None and rank not in self.alike:
            return nodes(rank)
        return self._count(nodes(rank), rank)

    def _count(self, nodes: Iterator[WorkNode], rank: int) -> Iterator[WorkNode]:
        count = _Count()
        for node in nodes:
            count.nodes += 1
            if node.kind is not None:
                role, is_alone = self.role(rank, node), not node.kind.is_collective
                size = 1 if is_alone else len(self.groups[node.group]) if node.group else self.ranks
                count.add(_Kind(role, node.kind, size, None if role in _UNEVEN else node.size_bytes), node.size_bytes)
            elif node.file is not None:
                if node.file.call in _STORAGE:
                    size = node.file.size_bytes
                    count.add(_Kind(GroupRole.STORAGE, _STORAGE[node.file.call], 1, size), size)
            elif node.node_type is NodeType.COMP:
                count.compute_nodes += 1
                count.compute_micros += node.duration_micros
            yield node
        self.counts[rank] = count


_UNEVEN = (GroupRole.DISPATCH, GroupRole.COMBINE, GroupRole.KEY_VALUE)
_STORAGE = {FileCall.PREAD: CommKind.STORAGE_READ, FileCall.PWRITE: CommKind.STORAGE_WRITE}


class _Kind(NamedTuple):
    """What is counted together: `size_bytes` None where sizes differ."""

    role: GroupRole
    kind: CommKind
    group_size: int
    size_bytes: int | None


@dataclass(slots=True)
class _Count:
    """What a rank does: nodes by kind, and the bytes of their sizes."""

    nodes: int = 0
    compute_nodes: int = 0
    compute_micros: int = 0
    kinds: Counter[_Kind] = field(default_factory=Counter)
    sums: Counter[_Kind] = field(default_factory=Counter)

    def add(self, kind: _Kind, size_bytes: int) -> None:
        self.kinds[kind] += 1
        self.sums[kind] += size_bytes


def _traffic(kind: _Kind, nodes: int, total_bytes: int) -> WorkloadTraffic:
    operations = nodes // kind.group_size
    if kind.size_bytes is None:
        return WorkloadTraffic.uneven(kind.role, kind.kind, kind.group_size, operations, total_bytes)
    return WorkloadTraffic(kind.role, kind.kind, kind.size_bytes, kind.group_size, operations)


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
