"""Trees as one member sees them: its parent and its children, computed without building the tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emulator.planner.collectives.blocks import Blocks
from emulator.planner.schedule import Lane, Step, Transfer


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
