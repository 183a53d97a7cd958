"""A trace in memory: arrays for all nodes of a rank, and an object for each communication node.

A rank can have millions of nodes, nearly all of them compute, so they are rows of arrays. Communication nodes are few
and have many attributes, so each is an object. Nothing here depends on the file format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

BoolArray: TypeAlias = npt.NDArray[np.bool_]
IntArray: TypeAlias = npt.NDArray[np.int64]
IdArray: TypeAlias = npt.NDArray[np.uint64]


class NodeType(IntEnum):
    """Chakra's node types, with the schema's numbers."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7
    STORAGE = 8
    BATCH = 9
    CHECKPOINT = 10


def is_communication(node_type: npt.NDArray[np.signedinteger[Any]]) -> BoolArray:
    """Which nodes are COMM_*."""
    return (node_type >= NodeType.COMM_SEND) & (node_type <= NodeType.COMM_COLL)


def is_storage(node_type: npt.NDArray[np.signedinteger[Any]]) -> BoolArray:
    """Which nodes are STORAGE, BATCH or CHECKPOINT."""
    return node_type >= NodeType.STORAGE


class StorageLevel(IntEnum):
    """Where in the storage stack an operation was seen, with the schema's numbers."""

    UNKNOWN = 0
    FILE = 1
    PAGE = 2
    BLOCK = 3
    DEVICE = 4


class StorageAction(IntEnum):
    """What an operation on storage moves: nothing that a network would carry, or the bytes of a read or a write."""

    OTHER = 0
    READ = 1
    WRITE = 2


class CommKind(IntEnum):
    """What a node on the network does: Chakra's collective numbers, and more for point to point and for storage."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9
    SEND = 100
    RECV = 101
    STORAGE_WRITE = 102
    STORAGE_READ = 103

    @property
    def label(self) -> str:
        """The name used in the command line, files and tables: `all_reduce`."""
        return self._name_.lower()  # `name` takes four times as long

    @property
    def is_collective(self) -> bool:
        """False for send and receive, and for storage."""
        return self < CommKind.SEND

    @property
    def is_storage(self) -> bool:
        """Between a rank and a storage host, which has no node of its own for it."""
        return self >= CommKind.STORAGE_WRITE

    @property
    def rows(self) -> int:
        """Nodes, and so measurements, that make up one point-to-point operation."""
        return 1 if self.is_storage else 2


@dataclass(frozen=True, slots=True)
class RawCommunication:
    """A communication node as the file has it; None if the attribute is absent. Ranks are world ranks.

    Attributes:
        row: row of the node in its RankTrace's columns.
        node_type: COMM_SEND, COMM_RECV or COMM_COLL.
        comm_type: the schema's collective number, unchecked.
        comm_size: as recorded: bytes, or elements if the trace counts elements; unchecked.
        pg_name: process group; "" if the attribute is empty.
        group_ranks: ranks of the group if the node lists them.
        root: world rank of the root if an attribute names it (`root_rank`, `comm_root`, `root`).
        in_splits, out_splits: uneven all-to-all: what this rank sends to / receives from each member, in group order.
        duration_micros: recorded duration, 0 if none.
    """

    row: int
    node_id: int
    name: str
    node_type: NodeType
    comm_type: int | None = None
    comm_size: int | None = None
    pg_name: str | None = None
    group_ranks: tuple[int, ...] | None = None
    src: int | None = None
    dst: int | None = None
    tag: int | None = None
    root: int | None = None
    in_splits: tuple[int, ...] | None = None
    out_splits: tuple[int, ...] | None = None
    duration_micros: int = 0


@dataclass(frozen=True, slots=True)
class RawStorage:
    """A node with details of a storage operation, as the file has it.

    Attributes:
        row: row of the node in its RankTrace's columns.
        level: where it was seen; only a FILE operation moves bytes to or from the application.
        action: READ and WRITE for file operations that transfer bytes, else OTHER.
        size_bytes: of a file operation, unchecked.
        duration_micros: recorded duration, 0 if none.
    """

    row: int
    node_id: int
    name: str
    level: StorageLevel
    action: StorageAction
    size_bytes: int = 0
    duration_micros: int = 0

    @property
    def moves(self) -> bool:
        """Whether it transfers bytes."""
        return self.action is not StorageAction.OTHER and self.size_bytes > 0


@dataclass(frozen=True, slots=True)
class RankTrace:
    """One rank's trace: n nodes in file order, m dependencies.

    Attributes:
        path: the file it was read from, for messages.
        rank: the rank in the file's name.
        schema: the metadata's `schema` (or `version`), "" if absent; for display only.
        node_id: uint64, shape (n,), distinct.
        node_type: int8, shape (n,), NodeType numbers.
        is_cpu: bool, shape (n,); absent in the file = False.
        is_pytorch_op: bool, shape (n,): the node carries PyTorch's `rf_id`, so its ctrl_deps are call-stack parents.
        start_micros, duration_micros: int64, shape (n,), µs as recorded, 0 if absent.
        dep_offset: int64, shape (n + 1,): the dependencies of row i are dep_id[dep_offset[i]:dep_offset[i + 1]],
            ctrl_deps first, then data_deps.
        ctrl_count: int64, shape (n,): how many of them are ctrl_deps.
        dep_id: uint64, shape (m,): node ids, unchecked: they may dangle.
        communications: every COMM_* node, in file order.
        storage: every node with details of a storage operation, in file order.
        groups: process groups that METADATA nodes of this rank define: name → world ranks, () = all.
        attribute_names: unknown attribute keys on communication nodes → count.
    """

    path: str
    rank: int
    schema: str
    node_id: IdArray
    node_type: npt.NDArray[np.int8]
    is_cpu: BoolArray
    is_pytorch_op: BoolArray
    start_micros: IntArray
    duration_micros: IntArray
    dep_offset: IntArray
    ctrl_count: IntArray
    dep_id: IdArray
    communications: Sequence[RawCommunication]
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    attribute_names: Mapping[str, int] = field(default_factory=dict)
    storage: Sequence[RawStorage] = ()

    def __len__(self) -> int:
        return len(self.node_id)

    @classmethod
    def empty(cls, rank: int) -> RankTrace:
        """Of a rank that was not recorded."""
        whole = np.zeros(0, dtype=np.int64)
        flags, ids, offset = np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.uint64), np.zeros(1, dtype=np.int64)
        return cls(
            path="",
            rank=rank,
            schema="",
            node_id=ids,
            node_type=np.zeros(0, dtype=np.int8),
            is_cpu=flags,
            is_pytorch_op=flags,
            start_micros=whole,
            duration_micros=whole,
            dep_offset=offset,
            ctrl_count=whole,
            dep_id=ids,
            communications=(),
        )


@dataclass(frozen=True, slots=True)
class Group:
    """A process group: `name` as the trace has it ("" = world), `ranks` ascending world ranks, distinct."""

    name: str
    ranks: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.ranks)


@dataclass(frozen=True, slots=True)
class Communication:
    """A communication node as an agent plays it, with group, size and peers resolved.

    Attributes:
        node_id, name: as in the file.
        row: row in the rank's columns.
        kind: what it does.
        group: index into Workload.groups; nodes that are no collectives have the world's.
        size_bytes: Chakra's comm_size after --element-bytes and --scale-bytes: input bytes per rank.
        instance: number of the merged collective, or of the send-receive pair, in the whole trace: equal on all ranks
            that take part, 0 … Workload.instances - 1.
        index_in_group: the rank's k-th collective of the group; for send/recv the k-th of (src, dst, tag); for storage
            the rank's k-th.
        peer: the other rank of a send or receive, the endpoint of a storage host, else -1.
        tag: of a send or receive, else 0.
        root: world rank of a rooted collective's root, else -1.
        send_splits, recv_splits: uneven all-to-all: bytes to / from each member in group order; None = even.
        traced_duration_micros: recorded duration, 0 if none.
    """

    node_id: int
    name: str
    row: int
    kind: CommKind
    group: int
    size_bytes: int
    instance: int
    index_in_group: int
    peer: int = -1
    tag: int = 0
    root: int = -1
    send_splits: tuple[int, ...] | None = None
    recv_splits: tuple[int, ...] | None = None
    traced_duration_micros: int = 0

    def ends(self, rank: int) -> tuple[int, int]:
        """(sender, receiver) of point-to-point and storage; `rank` is whose node it is."""
        return (rank, self.peer) if self.kind in (CommKind.SEND, CommKind.STORAGE_WRITE) else (self.peer, rank)


class Resource(IntEnum):
    """The resource that a node occupies while it runs."""

    NONE = 0
    CPU = 1
    DEVICE = 2
    NETWORK = 3


@dataclass(frozen=True, slots=True)
class RankProgram:
    """A rank's trace in the order it is played: n nodes in canonical order, dependencies as earlier positions.

    Attributes:
        order: int64, shape (n,): row of the node at each position.
        resource: int8, shape (n,), Resource numbers; NETWORK means the position has an entry in `communications`.
        duration_ns: int64, shape (n,): time on CPU or DEVICE (exclusive, unscaled), 0 elsewhere.
        dep_offset: int64, shape (n + 1,).
        dep_position: int64, shape (m,): positions, each smaller than the one that depends on it, distinct per node.
        communications: position → Communication, ascending positions.
    """

    rank: int
    order: IntArray
    resource: npt.NDArray[np.int8]
    duration_ns: IntArray
    dep_offset: IntArray
    dep_position: IntArray
    communications: Mapping[int, Communication]

    def __len__(self) -> int:
        return len(self.order)


@dataclass(frozen=True, slots=True)
class Workload:
    """A trace set that is proven to finish.

    Attributes:
        programs: one per rank, index = rank.
        groups: distinct process groups; groups[0] is the world.
        instances: merged collectives plus send-receive pairs plus storage operations.
        storage: what each storage endpoint sends when it is asked: the other side of every read of its ranks.
        window: nodes a rank must be able to hold at once so that the run can finish (see workload.py).
        warnings: unusual but playable: name → number of times, over all ranks.
        deducted_ns: per rank, duration removed because a parent's duration contained its children's.
        dropped: dangling dependencies dropped by `--lenient`.
        only: the one rank of the job that was recorded: the others have empty programs, and it cannot be played;
            None: all were.
    """

    programs: Sequence[RankProgram]
    groups: Sequence[Group]
    instances: int
    window: int
    warnings: Mapping[str, int]
    deducted_ns: Sequence[int]
    dropped: int = 0
    storage: Sequence[RankProgram] = ()
    only: int | None = None

    @property
    def recorded(self) -> Sequence[RankProgram]:
        """The programs of the ranks that were recorded."""
        return self.programs if self.only is None else [self.programs[self.only]]
