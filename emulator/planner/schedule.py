"""How collective algorithms are written: as lanes of steps of transfers, from the view of one member.

For one member of a group, an algorithm returns lanes: independent lazy sequences of steps. Lanes run side by side.
Within a lane, a step starts when all receives of the previous step have arrived. Its sends are then passed to the
transport together, and its receives are awaited. A send can therefore carry what earlier steps received, but not what
its own step receives. Acknowledgements are awaited only at the end of the collective. Within a lane, transfers between
two members arrive in the order they were sent, and the receiver lists them in that order; there is no other matching.
A member is done when all lanes are exhausted and all sends are acknowledged.

Offsets are bytes in the logical buffer of the collective, which `Collective` defines per kind. They are not sent; tests
use them to prove that algorithms are correct.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias

from emulator.planner.group_layout import GroupLayout
from emulator.trace.meaning.model import CommKind


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective of n members from the view of one. Member numbers are indices into the group, not world ranks.

    The logical buffer that offsets refer to; s = size_bytes, Chakra's comm_size, input bytes per rank:
        all_reduce, reduce, broadcast: one array of s bytes.
        reduce_scatter: one array of s bytes; member i ends with block i of n, see `block`, reduced.
        all_gather, gather: n shards of s bytes, that of member i at i * s; the array has n * s bytes.
        scatter: the root's array of s bytes; member i ends with block i of n, see `block`.
        all_to_all: n rows, one per sender: its whole input in blocks by receiver. Even: row i starts at i * s and is
            cut by `block(s, n, j)`. Uneven: a member does not know the lengths of other rows, so offsets of sends count
            from the start of the sender's own row, and receives have offset -1.
        barrier: no data; transfers have size BARRIER_BYTES and offset 0.

    Attributes:
        kind: REDUCE_SCATTER_BLOCK is treated as REDUCE_SCATTER.
        members: n, at least 1.
        member: number of this member, 0 … n-1.
        size_bytes: s, at least 0.
        root: member number of the root if the kind has one, else 0.
        send_splits, recv_splits: for an uneven all-to-all, bytes to and from each member; both or neither.
        layout: where the members are; None if that is not known, which counts as every member on a node of its own.
    """

    kind: CommKind
    members: int
    member: int
    size_bytes: int
    root: int = 0
    send_splits: Sequence[int] | None = None
    recv_splits: Sequence[int] | None = None
    layout: GroupLayout | None = None


Pieces: TypeAlias = Iterable[tuple[int, int]]
"""(offset, size) of each piece of a transfer that is not one range of the buffer; can be iterated again and again."""


class Transfer(NamedTuple):
    """`size` bytes of the logical buffer, to or from another member, `peer`: those from `offset` on, or its pieces."""

    peer: int
    offset: int | Pieces
    size: int


class Step(NamedTuple):
    """One step of a lane. Algorithms leave out transfers of size 0; a step can be empty.

    Attributes:
        sends: passed to the transport when the step starts.
        recvs: end the step when all have arrived.
        reduces: received bytes are added to the buffer instead of stored.
    """

    sends: Sequence[Transfer] = ()
    recvs: Sequence[Transfer] = ()
    reduces: bool = False


Lane: TypeAlias = Iterator[Step]
BARRIER_BYTES: Final = 1


class Algorithm(Protocol):
    """A collective algorithm: a function from the view of a member to its lanes."""

    def __call__(self, collective: Collective, /) -> Sequence[Lane]:
        """Lanes of this member; all members of the group must have the same number of lanes.

        Raises:
            PlanError: the algorithm does not support this kind.
        """
        ...


def block(size_bytes: int, parts: int, index: int) -> tuple[int, int]:
    """(offset, size) of one of `parts` near-equal blocks; the first size % parts blocks are one byte longer."""
    base, longer = divmod(size_bytes, parts)
    return index * base + min(index, longer), base + (index < longer)
