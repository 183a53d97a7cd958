"""Patterns of exchange that algorithms are built of: the ring, direct exchange, halving and doubling, trees.

Halving and doubling is for 2^k members; Bruck's circulant form is for any number. In each step of halving, partners at
one distance split the blocks that they hold. `distances` sets the order; doubling takes it in reverse. A member sees
its parent and children alone, without building the tree.

Sources: Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005); for the circulant form Bruck, Ho, Kipnis, Upfal, Weathersby,
IEEE TPDS 8 (1997).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from emulator.planner.collectives.blocks import Blocks, BlockSlices, transfer, transfers
from emulator.planner.schedule import Lane, Step, Transfer

SLICES = 2
SLICE_BYTES = 256 << 10
"""Smaller slices cost more in messages than they save in time."""


class Parts(Protocol):
    """Blocks by index."""

    @property
    def parts(self) -> int:
        """How many there are."""
        ...

    def locate(self, index: int, /) -> tuple[int, int]:
        """(offset, size) of one."""
        ...


def in_slices(blocks: Blocks) -> Sequence[Blocks | BlockSlices]:
    """The blocks, cut into the slices that travel around the ring in separate lanes.

    If blocks are cut into two slices, a member passes on the first while it receives the second. The time between
    receiving one and sending the next is then hidden at every step. With two members there is nothing to gain: each has
    only one step in either half of an all-reduce.
    """
    if blocks.parts <= 2 or blocks.size(-1) < SLICES * SLICE_BYTES:
        return [blocks]
    return [blocks.cut(SLICES, index) for index in range(SLICES)]


def ring_pass(blocks: Parts, *, first: int, to: int, source: int, reduces: bool) -> Lane:
    """parts - 1 steps: send block `first` to member `to`, then the block received from `source` in the previous step.

    Blocks arrive in descending order, so with `reduces` the last one received, `first` + 1, is complete.
    """
    index, locate, new = first, blocks.locate, tuple.__new__  # takes half the time of the NamedTuple's own __new__
    offset, size = locate(first)
    for _ in range(blocks.parts - 1):
        sends = (new(Transfer, (to, offset, size)),) if size else ()
        index = (index or blocks.parts) - 1
        offset, size = locate(index)
        yield new(Step, (sends, (new(Transfer, (source, offset, size)),) if size else (), reduces))


def direct_gather(blocks: Blocks, *, member: int) -> Lane:
    """One step: send the own block to all others and receive theirs."""
    own, theirs = _own_and_theirs(blocks, member)
    yield Step(own, theirs)


def direct_scatter(blocks: Blocks, *, member: int) -> Lane:
    """One step: send every other member its block, and reduce the own block from all."""
    own, theirs = _own_and_theirs(blocks, member)
    yield Step(theirs, own, True)


def _own_and_theirs(blocks: Blocks, member: int) -> tuple[list[Transfer], list[Transfer]]:
    # Every member starts with its successor, so that not all start with member 0.
    others = [*range(member + 1, blocks.parts), *range(member)]
    offset, size = blocks.locate(member)
    own = [Transfer(peer, offset, size) for peer in others] if size else []
    theirs = [Transfer(peer, start, length) for peer in others for start, length in (blocks.locate(peer),) if length]
    return own, theirs


def powers_below(members: int) -> list[int]:
    """The powers of two below `members`: 1, 2, 4, …; ceil(log2(members)) of them."""
    return [1 << k for k in range((members - 1).bit_length())]


def halving(blocks: Blocks, *, position: int, distances: Sequence[int], peer_of: Callable[[int], int]) -> Lane:
    """Recursive vector halving: a reduce-scatter over 2^k positions.

    Args:
        blocks: the array, with one block per position.
        position: position of the member.
        distances: a permutation of 1, 2, 4, … parts / 2.
        peer_of: returns the member number at a position.
    """
    for distance, kept, sent_first in _halves(blocks.parts, position, distances):
        peer, count = peer_of(position ^ distance), kept[1]
        sends, recvs = transfer(peer, blocks.span(sent_first, count)), transfer(peer, blocks.span(kept[0], count))
        yield Step(sends, recvs, True)


def doubling(blocks: Blocks, *, position: int, distances: Sequence[int], peer_of: Callable[[int], int]) -> Lane:
    """Recursive vector doubling: the all-gather that reverses `halving` with the same arguments."""
    for distance, kept, sent_first in reversed(list(_halves(blocks.parts, position, distances))):
        peer, count = peer_of(position ^ distance), kept[1]
        yield Step(transfer(peer, blocks.span(kept[0], count)), transfer(peer, blocks.span(sent_first, count)))


def _halves(parts: int, position: int, distances: Sequence[int]) -> Iterator[tuple[int, tuple[int, int], int]]:
    """Per step: (distance, (first, count) of the half kept, first block of the half sent)."""
    first, count = 0, parts
    for distance in distances:
        count //= 2
        lower, upper = first, first + count
        first, sent_first = (upper, lower) if position & distance else (lower, upper)
        yield distance, (first, count), sent_first


def circulant_gather(blocks: Blocks, *, member: int) -> Lane:
    """All-gather of one block per member in ceil(log2(n)) steps; in each but the last, the blocks held double."""
    n = blocks.parts
    for held in powers_below(n):
        count, source = min(held, n - held), (member + held) % n
        sends = transfers((member - held) % n, blocks.arc(member, count))
        yield Step(sends, transfers(source, blocks.arc(source, count)))


def circulant_scatter(blocks: Blocks, *, member: int) -> Lane:
    """Reduce-scatter in ceil(log2(n)) steps: `circulant_gather` in reverse, with additions in place of copies."""
    n = blocks.parts
    for held in reversed(powers_below(n)):
        count, to = min(held, n - held), (member + held) % n
        sends = transfers(to, blocks.arc(to, count))
        yield Step(sends, transfers((member - held) % n, blocks.arc(member, count)), True)


@dataclass(frozen=True, slots=True)
class TreePlace:
    """A member's place in a tree, in member numbers. The root has no parent, a leaf has no children."""

    parent: int | None
    children: Sequence[int]


def binomial(members: int, member: int, root: int) -> TreePlace:
    """Binomial tree. Counted from the root, the parent of v is v without its lowest set bit; largest subtree first."""
    position = (member - root) % members
    low = position & -position or 1 << (members - 1).bit_length()
    steps = [1 << k for k in reversed(range(low.bit_length() - 1)) if position + (1 << k) < members]
    parent = (position - low + root) % members if position else None
    return TreePlace(parent, [(position + step + root) % members for step in steps])


def binomial_subtree(members: int, member: int, root: int) -> int:
    """Size of the subtree of `member` in `binomial`; it consists of `member` and its successors, wrapping around."""
    position = (member - root) % members
    return min(position & -position, members - position) if position else members


def chain(members: int, member: int, root: int) -> TreePlace:
    """A chain that starts at the root and continues with its successors, wrapping around."""
    position = (member - root) % members
    parent = (member - 1) % members if position else None
    return TreePlace(parent, [(member + 1) % members] if position + 1 < members else ())


def star(members: int, member: int, root: int) -> TreePlace:
    """A star: all other members are children of the root."""
    if member != root:
        return TreePlace(root, ())
    return TreePlace(None, [*range(root + 1, members), *range(root)])


def in_order(members: int, member: int) -> TreePlace:
    """A binary tree of least height with members numbered in order; only odd members have children."""
    label = member + 1
    low = label & -label
    parent = label ^ low | low << 1
    if parent > members:
        parent = label ^ low
    return TreePlace(parent - 1 if parent else None, _in_order_children(members, label, low))


def _in_order_children(members: int, label: int, low: int) -> Sequence[int]:
    if low == 1:
        return ()
    right = low >> 1
    while right and label + right > members:
        right >>= 1
    left_child = label - (low >> 1) - 1
    return (left_child, label + right - 1) if right else (left_child,)


def two_trees(members: int, member: int) -> tuple[TreePlace, TreePlace]:
    """Two binary trees; every member has children in at most one of them.

    The first is `in_order`, in which inner members are odd. The second is its mirror image if n is even, and the same
    tree shifted by one if n is odd; in both cases its inner members are even.

    Source: Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
    Parallel Computing 35 (2009).
    """
    flip = -1 if members % 2 == 0 else 1
    shift = members - 1 if members % 2 == 0 else 1
    twin = in_order(members, (member - shift) * flip % members)
    parent = None if twin.parent is None else (twin.parent * flip + shift) % members
    return in_order(members, member), TreePlace(parent, [(child * flip + shift) % members for child in twin.children])


CHUNK_BYTES = 128 << 10
MOST_CHUNKS = 128
"""Filling a pipeline of depth d takes d / MOST_CHUNKS of the transfer time; more chunks would only add steps."""


def in_chunks(size_bytes: int, *, start: int = 0) -> Blocks:
    """`size_bytes` (at least 1) cut into chunks of about CHUNK_BYTES, at most MOST_CHUNKS of them."""
    return Blocks(size_bytes, min(MOST_CHUNKS, -(-size_bytes // CHUNK_BYTES)), start=start)


def flow_up(place: TreePlace, chunks: Blocks) -> Lane:
    """Reduce towards the root; at most chunks + 1 steps."""
    sends: tuple[Transfer, ...] = ()
    for index in range(chunks.parts):
        offset, size = chunks.locate(index)
        if place.children:
            yield Step(sends, tuple([Transfer(child, offset, size) for child in place.children]), True)
        elif sends:
            yield Step(sends)
        sends = () if place.parent is None else (Transfer(place.parent, offset, size),)
    if sends:
        yield Step(sends)


def flow_down(place: TreePlace, chunks: Blocks) -> Lane:
    """Copy from the root; at most chunks + 1 steps."""
    sends: tuple[Transfer, ...] = ()
    for index in range(chunks.parts):
        offset, size = chunks.locate(index)
        if place.parent is not None:
            yield Step(sends, (Transfer(place.parent, offset, size),))
        elif sends:
            yield Step(sends)
        sends = tuple([Transfer(child, offset, size) for child in place.children])
    if sends:
        yield Step(sends)
