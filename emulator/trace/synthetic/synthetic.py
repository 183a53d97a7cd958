"""Workloads to be written as traces: nodes of each rank, and totals of synthetic ones. No file format."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import partial
from typing import NamedTuple

from emulator.errors import PlanError
from emulator.trace.meaning.meaning import MAX_SIZE_BYTES
from emulator.trace.meaning.model import CommKind, NodeType

MAX_COMM_SIZE = MAX_SIZE_BYTES
"""Largest size of a communication; traces with larger ones could not be played."""

LARGEST_JOB_NODES = 20_000_000
"""Nodes of all ranks together: more would take hours and hundreds of gigabytes to prepare."""

WORLD_GROUP = 0
"""Group number that stands for all ranks; it is never written to a group file."""


def check_size(ranks: int, nodes: int) -> None:
    """Refuse a job that is too large to be prepared; `nodes` of each rank.

    Raises:
        PlanError: it has more than LARGEST_JOB_NODES.
    """
    if ranks * nodes > LARGEST_JOB_NODES:
        raise PlanError(
            f"{ranks:,} ranks with {nodes:,} communications each have {ranks * nodes:,} nodes; a job has at most "
            f"{LARGEST_JOB_NODES:,} in all: use fewer ranks or sizes"
        )


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


class FileCall(IntEnum):
    """System calls on files, with the schema's numbers."""

    PREAD = 5
    PWRITE = 6
    FSYNC = 7


@dataclass(frozen=True, slots=True)
class FileOperation:
    """A system call on a file: `size_bytes` from `offset` on."""

    call: FileCall
    path: str
    offset: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class WorkNode:
    """A node of one rank. Ids start at 1 and dependencies have smaller ids, so file, id and canonical order are equal.

    Attributes:
        deps: ids of the nodes that it depends on, ascending.
        duration_micros: compute time, µs; of communication: as recorded, 0 if none is.
        kind: kind of communication; None for all else.
        size_bytes: Chakra's comm_size: input bytes per rank.
        group: process group number of a collective; WORLD_GROUP: all ranks.
        peer: world rank of the other side of a send or receive, else -1.
        on_cpu: compute runs on the CPU, not on the device.
        start_micros: as recorded, from the beginning of the rank's trace.
        root: world rank of a collective's root; -1: the lowest one of the group.
        send_splits, recv_splits: uneven all-to-all: bytes to and from each member; None: even.
        attributes: further attributes of the node in the file.
        node_type: of a node without `kind`.
        file: what a STORAGE node does.
    """

    node_id: int
    name: str
    deps: tuple[int, ...] = ()
    duration_micros: int = 0
    kind: CommKind | None = None
    size_bytes: int = 0
    group: int = WORLD_GROUP
    peer: int = -1
    tag: int = 0
    on_cpu: bool = False
    start_micros: int = 0
    root: int = -1
    send_splits: tuple[int, ...] | None = None
    recv_splits: tuple[int, ...] | None = None
    attributes: Mapping[str, int] = field(default_factory=dict)
    node_type: NodeType = NodeType.COMP
    file: FileOperation | None = None


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


@dataclass(frozen=True, slots=True)
class NodeStreams:
    """A workload as a lazy stream of nodes for every rank, and process groups.

    Attributes:
        name: prefix of the files.
        groups: group number (from 1) → world ranks, ascending; groups of one rank are left out.
        nodes: rank → its nodes, in file order.
        parameters: what it was made from, for the metadata of the files.
        maker: what made it, the `schema` in the metadata of the files.
    """

    name: str
    ranks: int
    groups: Mapping[int, tuple[int, ...]]
    nodes: Callable[[int], Iterator[WorkNode]]
    parameters: Mapping[str, int | float | str]
    maker: str = "charkha.generate"


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
