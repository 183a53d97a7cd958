"""The language collective algorithms are written in: lanes of steps of transfers, seen from one member.

An algorithm, asked for one member of a group, gives lanes: independent lazy sequences of steps. Lanes run side by side.
Within a lane a step starts when all receives of the step before it have arrived; on starting, its sends are handed to
the transport together and its receives are awaited. (A send may therefore carry what earlier steps received, never what
its own step receives. Nobody waits for the acknowledgement of a send before the collective's end.) Between two members
and within a lane, transfers arrive in the order they were sent, and the receiver names them in that order: there is no
other matching. The collective is done for a member when every lane is exhausted and every send is acknowledged.

Offsets are bytes in the collective's logical buffer, which `Collective` defines per kind. They do not go onto the wire:
they are what the proofs in the tests follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from emulator.trace.model import CommKind


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective as a member sees it; n members, member numbers are indices into the group (not world ranks).

    The logical buffer (what offsets mean; s = size_bytes, Chakra's comm_size: input bytes per rank):
        all_reduce, reduce, broadcast: one array of s bytes.
        reduce_scatter: one array of s bytes; member i ends with block i of n, see `block`, reduced.
        all_gather, gather: n shards of s bytes, member i's at i * s; the array has n * s bytes.
        scatter: the root's array of s bytes; member i ends with block i of n, see `block`.
        all_to_all: n rows, one per sender, each that sender's whole input in blocks by receiver. Even: row i starts at
            i * s and is cut by `block(s, n, j)`. Uneven: lengths of other rows are unknown to a member, so a send's
            offset counts from the start of the sender's own row, and a receive carries offset -1.
        barrier: no data; transfers have size BARRIER_BYTES and offset 0.

    Attributes:
        kind: REDUCE_SCATTER_BLOCK is treated as REDUCE_SCATTER.
        members: n, at least 1.
        member: who asks, 0 … n-1.
        size_bytes: s, at least 0.
        root: member number of the root where the kind has one, else 0.
        send_splits, recv_splits: uneven all-to-all: bytes to / from each member; both or neither.
    """

    kind: CommKind
    members: int
    member: int
    size_bytes: int
    root: int = 0
    send_splits: Sequence[int] | None = None
    recv_splits: Sequence[int] | None = None


class Transfer(NamedTuple):
    """Bytes [offset, offset + size) of the logical buffer, to or from `peer` (a member number, never the own one)."""

    peer: int
    offset: int
    size: int


class Step(NamedTuple):
    """Sends handed over at the step's start, receives whose arrival ends it; `reduces`: receives are added, not stored.

    Transfers of size 0 are left out by the algorithms; a step may be empty.
    """

    sends: Sequence[Transfer] = ()
    recvs: Sequence[Transfer] = ()
    reduces: bool = False


Lane: TypeAlias = Iterator[Step]
BARRIER_BYTES = 1


class Algorithm(Protocol):
    """A collective algorithm: a plain function from one member's view to its lanes."""

    def __call__(self, collective: Collective, /) -> Sequence[Lane]:
        """Lanes of this member; every member of the group must return the same number of lanes.

        Raises:
            PlanError: the algorithm cannot do this kind.
        """
        ...


def block(size_bytes: int, parts: int, index: int) -> tuple[int, int]:
    """(offset, size) of one of `parts` near-equal blocks: the first size % parts blocks are one byte longer."""
    base, longer = divmod(size_bytes, parts)
    return index * base + min(index, longer), base + (index < longer)
