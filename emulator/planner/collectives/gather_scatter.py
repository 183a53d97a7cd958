"""Gather and scatter: a block of each member to the root, or from it. n members; s bytes, see `Collective`.

Trees are laid out with the root at position 0, followed by the other members in order, wrapping around.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from emulator.planner.collectives.blocks import Blocks, array_of, shards_of, transfers
from emulator.planner.collectives.trees import TreePlace, binomial, binomial_subtree, star
from emulator.planner.schedule import Collective, Lane, Step, Transfer

Tree: TypeAlias = Callable[[int, int, int], TreePlace]
"""(members, member, root) → place of the member."""


def gather_tree(collective: Collective, /) -> Sequence[Lane]:
    """Binomial tree: ceil(log2(n)) hops. A member with m members in its subtree sends m s bytes, receives (m - 1) s.

    Source: Chan, Heimlich, Purkayastha, van de Geijn, CCPE 19 (2007).
    """
    return [_gather(shards_of(collective), collective, binomial)]


def gather_parallel(collective: Collective, /) -> Sequence[Lane]:
    """All send their shards to the root at once: 1 hop; s bytes sent by each, (n - 1) s received by the root."""
    return [_gather(shards_of(collective), collective, star)]


def scatter_tree(collective: Collective, /) -> Sequence[Lane]:
    """Binomial tree: ceil(log2(n)) hops. Receives the blocks of its subtree, and sends on all but its own.

    Source: Chan, Heimlich, Purkayastha, van de Geijn, CCPE 19 (2007).
    """
    return [_scatter(array_of(collective), collective, binomial)]


def scatter_parallel(collective: Collective, /) -> Sequence[Lane]:
    """The root sends block i to every member i at once: 1 hop; s - b(root) bytes sent, b(i) received."""
    return [_scatter(array_of(collective), collective, star)]


def _gather(blocks: Blocks, collective: Collective, tree: Tree) -> Iterator[Step]:
    place = tree(collective.members, collective.member, collective.root)
    recvs = _subtrees(blocks, collective, place.children, tree)
    if recvs:
        yield Step((), recvs)
    if place.parent is not None:
        yield Step(transfers(place.parent, _subtree(blocks, collective, collective.member, tree)))


def _scatter(blocks: Blocks, collective: Collective, tree: Tree) -> Iterator[Step]:
    place = tree(collective.members, collective.member, collective.root)
    if place.parent is not None:
        yield Step((), transfers(place.parent, _subtree(blocks, collective, collective.member, tree)))
    sends = _subtrees(blocks, collective, place.children, tree)
    if sends:
        yield Step(sends)


def _subtrees(blocks: Blocks, collective: Collective, children: Iterable[int], tree: Tree) -> list[Transfer]:
    """Transfers of the blocks of each child's subtree."""
    return [each for child in children for each in transfers(child, _subtree(blocks, collective, child, tree))]


def _subtree(blocks: Blocks, collective: Collective, member: int, tree: Tree) -> Sequence[tuple[int, int]]:
    """(offset, size) of the blocks of a member's subtree, which cross the edge to its parent."""
    count = 1 if tree is star else binomial_subtree(collective.members, member, collective.root)
    return blocks.arc(member, count)
