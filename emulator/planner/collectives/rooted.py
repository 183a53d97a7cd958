"""Collectives with a root: broadcast and reduce of a whole array of s bytes, gather and scatter of a block per member.

Trees are laid out with the root at position 0, followed by the other members in order, wrapping around.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from emulator.planner.collectives.blocks import Blocks, array_of, shards_of, transfers
from emulator.planner.collectives.patterns import (
    TreePlace,
    binomial,
    binomial_subtree,
    chain,
    flow_down,
    flow_up,
    in_chunks,
    star,
)
from emulator.planner.schedule import Collective, Lane, Step, Transfer

Tree: TypeAlias = Callable[[int, int, int], TreePlace]
"""(members, member, root) → place of the member."""


def broadcast_tree(collective: Collective, /) -> Sequence[Lane]:
    """Binomial tree: ceil(log2(n)) hops. A member sends s bytes per child; the root has the most children.

    Source: Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005).
    """
    return [_down(collective, binomial)]


def broadcast_ring(collective: Collective, /) -> Sequence[Lane]:
    """A chain from the root, in c chunks: c + n - 2 hops. Sends s bytes, the last member none; receives s.

    Source: the linear pipeline in Sanders, Speck, Träff, Parallel Computing 35 (2009).
    """
    return [_down(collective, chain, is_pipelined=True)]


def broadcast_parallel(collective: Collective, /) -> Sequence[Lane]:
    """The root sends to all at once: 1 hop; (n - 1) s bytes sent by the root, s received by each other member."""
    return [_down(collective, star)]


def reduce_tree(collective: Collective, /) -> Sequence[Lane]:
    """Binomial tree: ceil(log2(n)) hops. Sends s bytes, the root none; receives s bytes per child.

    Source: Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005).
    """
    return [_up(collective, binomial)]


def reduce_ring(collective: Collective, /) -> Sequence[Lane]:
    """A chain to the root, in c chunks: c + n - 2 hops. Sends s bytes, the root none; receives s, the far end none.

    Source: the linear pipeline in Sanders, Speck, Träff, Parallel Computing 35 (2009).
    """
    return [_up(collective, chain, is_pipelined=True)]


def reduce_parallel(collective: Collective, /) -> Sequence[Lane]:
    """All send to the root at once: 1 hop; s bytes sent by each other member, (n - 1) s received by the root."""
    return [_up(collective, star)]


def _down(collective: Collective, tree: Tree, *, is_pipelined: bool = False) -> Iterator[Step]:
    if collective.size_bytes:
        yield from flow_down(_place(collective, tree), _chunks(collective, is_pipelined))


def _up(collective: Collective, tree: Tree, *, is_pipelined: bool = False) -> Iterator[Step]:
    if collective.size_bytes:
        yield from flow_up(_place(collective, tree), _chunks(collective, is_pipelined))


def _chunks(collective: Collective, is_pipelined: bool) -> Blocks:
    return in_chunks(collective.size_bytes) if is_pipelined else Blocks(collective.size_bytes, 1)


def _place(collective: Collective, tree: Tree) -> TreePlace:
    return tree(collective.members, collective.member, collective.root)


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
