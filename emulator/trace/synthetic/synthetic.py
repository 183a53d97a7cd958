"""Workloads to be written as traces: the nodes of each rank. No file format."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TypeAlias

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


Emission: TypeAlias = Generator[WorkNode, None, int]
"""Yields nodes; returns the id of the node after which the result is available, 0 if from the start."""


class NodeChain:
    """The last id and the last compute node of a rank.

    Attributes:
        device: id of the last node that the device computes; 0: none yet.
    """

    def __init__(self) -> None:
        self._last_id = 0
        self.device = 0

    def compute(self, name: str, micros: int, ready: int) -> Emission:
        """The device computes, once it is free and `ready` is done."""
        self.device = yield from self.append(name, self.device, ready, duration_micros=micros)
        return self.device

    def append(self, name: str, *after: int, **more: Any) -> Emission:
        """A node that starts once all of `after` are done; 0: nothing. `more`: as of WorkNode."""
        self._last_id += 1
        number = self._last_id
        yield WorkNode(number, name, tuple(sorted({dep for dep in after if dep})), **more)
        return number
