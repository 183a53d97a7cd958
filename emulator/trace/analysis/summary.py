"""What is in a trace set, in numbers: what `charkha trace check` reports."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from emulator.trace.analysis.critical_path import CriticalPath, traced_ns
from emulator.trace.meaning.model import (
    CommKind,
    Communication,
    Group,
    NodeType,
    RankTrace,
    Resource,
    StorageAction,
    Workload,
)
from emulator.units import NS_PER_US


@dataclass(frozen=True, slots=True)
class OperationClass:
    """Operations of one kind in groups of one size; a send with its receive is one operation between two.

    Attributes:
        operations: merged operations.
        nodes: nodes over all ranks that make them up.
        payload_bytes: comm_size, each operation once (uneven all-to-all: its largest member).
        payload_bytes_all_ranks: comm_size, over all nodes (messages: over the sends).
    """

    kind: str
    group_size: int
    operations: int
    nodes: int
    payload_bytes: int
    payload_bytes_all_ranks: int


@dataclass(frozen=True, slots=True)
class StorageUse:
    """File operations that transfer bytes, over all ranks; bytes as recorded, before any scaling."""

    operations: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Spread:
    """A value that every rank has: smallest, middle, largest over the ranks."""

    least: int
    middle: int
    most: int


@dataclass(frozen=True, slots=True)
class Summary:
    """A trace set in numbers. Times are nanoseconds, sizes bytes after any scaling.

    Attributes:
        ranks, nodes: how many, nodes over all ranks.
        only: the one rank of them that was recorded; None: all were.
        schemas: what the files say they are, distinct.
        nodes_by_type: the schema's name → nodes over all ranks; types that occur.
        communication_nodes: kind → network communication nodes over all ranks; kinds that occur.
        operations: by kind and group size.
        storage: "read" and "write" → file operations of storage nodes; those that occur.
        groups: distinct process groups that collectives use, the world included where used.
        groups_defined: distinct groups that files, nodes and metadata define, used or not.
        cpu_ns, device_ns: compute time of a rank, as it is played.
        deducted_ns: time of a rank that a parent's duration had contained already.
        traced_communication_ns: recorded durations of a rank's network communications; None: nothing is recorded.
        critical_path_compute_ns: longest path with communications taking no time.
        critical_path_traced_ns: longest path with communications taking their recorded time; None: nothing is recorded.
        window: nodes of a rank that must be held at once.
        dropped: dangling dependencies dropped.
        warnings: name → count.
    """

    ranks: int
    nodes: int
    schemas: Sequence[str]
    nodes_by_type: Mapping[str, int]
    communication_nodes: Mapping[str, int]
    operations: Sequence[OperationClass]
    storage: Mapping[str, StorageUse]
    groups: Sequence[Group]
    groups_defined: int
    cpu_ns: Spread
    device_ns: Spread
    deducted_ns: Spread
    traced_communication_ns: Spread | None
    critical_path_compute_ns: int
    critical_path_traced_ns: int | None
    window: int
    dropped: int
    warnings: Mapping[str, int]
    only: int | None = None

    @property
    def not_playable(self) -> str | None:
        """Why it cannot be played; None: a run of it finishes."""
        return None if self.only is None else f"1 of {self.ranks:,} ranks: not playable; record all ranks"


def summarise(
    workload: Workload, traces: Sequence[RankTrace], *, groups: Mapping[str, Sequence[int]] | None = None
) -> Summary:
    """Count what a proven workload and the traces it came from hold; `groups` is the group file.

    Takes about 1 µs a node, nearly all of it for the critical paths.
    """
    path = CriticalPath(workload)
    recorded = traced_ns(workload)
    has_recorded = bool(np.any(recorded))
    nodes = list(_communications(workload))
    by_kind = Counter(node.kind for node in nodes)
    return Summary(
        ranks=len(workload.programs),
        nodes=sum(map(len, workload.programs)),
        schemas=sorted({trace.schema for trace in traces if trace.schema}),
        nodes_by_type=_nodes_by_type(traces),
        communication_nodes={kind.label: count for kind, count in sorted(by_kind.items())},
        operations=_operations(workload),
        storage=_storage(traces),
        groups=_used_groups(workload),
        groups_defined=len(_defined_groups(workload, traces, groups or {})),
        cpu_ns=_spread(_compute_ns(workload, Resource.CPU)),
        device_ns=_spread(_compute_ns(workload, Resource.DEVICE)),
        deducted_ns=_spread([workload.deducted_ns[program.rank] for program in workload.recorded]),
        traced_communication_ns=_spread(_recorded_ns(workload)) if has_recorded else None,
        critical_path_compute_ns=path.length_ns(np.zeros(workload.instances, dtype=np.int64)),
        critical_path_traced_ns=path.length_ns(recorded) if has_recorded else None,
        window=workload.window,
        dropped=workload.dropped,
        warnings=workload.warnings,
        only=workload.only,
    )


def _communications(workload: Workload) -> Iterable[Communication]:
    return (node for program in workload.programs for node in program.communications.values())


def _nodes_by_type(traces: Sequence[RankTrace]) -> dict[str, int]:
    counts = sum((np.bincount(trace.node_type, minlength=len(NodeType)) for trace in traces), np.zeros(1, np.int64))
    return {NodeType(number).name: int(count) for number, count in enumerate(counts) if count}


def _storage(traces: Sequence[RankTrace]) -> dict[str, StorageUse]:
    sizes: dict[StorageAction, list[int]] = defaultdict(list)
    for node in (node for trace in traces for node in trace.storage):
        sizes[node.action].append(node.size_bytes)
    moving = (action for action in sorted(sizes) if action is not StorageAction.OTHER)
    return {action.name.lower(): StorageUse(len(sizes[action]), sum(sizes[action])) for action in moving}


def _operations(workload: Workload) -> list[OperationClass]:
    members: dict[tuple[CommKind, int], list[Communication]] = defaultdict(list)
    for node in _communications(workload):
        is_message = not node.kind.is_collective
        size = 2 if is_message else len(workload.groups[node.group])
        members[CommKind.SEND if is_message else node.kind, size].append(node)
    return [_operation_class(kind, size, nodes) for (kind, size), nodes in sorted(members.items())]


def _operation_class(kind: CommKind, group_size: int, nodes: Sequence[Communication]) -> OperationClass:
    largest: dict[int, int] = {}
    for node in nodes:
        largest[node.instance] = max(largest.get(node.instance, 0), node.size_bytes)
    return OperationClass(
        kind=kind.label,
        group_size=group_size,
        operations=len(largest),
        nodes=len(nodes),
        payload_bytes=sum(largest.values()),
        payload_bytes_all_ranks=sum(node.size_bytes for node in nodes if node.kind != CommKind.RECV),
    )


def _used_groups(workload: Workload) -> list[Group]:
    used = {node.group for node in _communications(workload) if node.kind.is_collective}
    return [workload.groups[index] for index in sorted(used)]


def _defined_groups(
    workload: Workload, traces: Sequence[RankTrace], named: Mapping[str, Sequence[int]]
) -> set[tuple[str, tuple[int, ...]]]:
    """Groups by name and ranks, without the world under its own names."""
    world = workload.groups[0].ranks
    found = {(group.name, group.ranks) for group in workload.groups[1:]}
    found |= {(name, tuple(sorted(ranks))) for name, ranks in named.items()}
    found |= {(name, tuple(sorted(ranks)) or world) for trace in traces for name, ranks in trace.groups.items()}
    return found - {("", world), ("0", world)}


def _compute_ns(workload: Workload, resource: Resource) -> list[int]:
    # In microseconds: the nanoseconds of absurdly long nodes would not fit 64 bits.
    return [
        int((program.duration_ns[program.resource == resource] // NS_PER_US).sum()) * NS_PER_US
        for program in workload.recorded
    ]


def _recorded_ns(workload: Workload) -> list[int]:
    return [
        sum(node.traced_duration_micros for node in program.communications.values()) * NS_PER_US
        for program in workload.recorded
    ]


def _spread(values: Sequence[int]) -> Spread:
    return Spread(min(values), int(median(values)), max(values))
