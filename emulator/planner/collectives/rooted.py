"""Collectives with a root: broadcast, reduce, gather, scatter. n members, size s.

Trees are drawn with the root as position 0 and the others following it round the circle of member numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from emulator.planner.collectives.blocks import Blocks, transfers
from emulator.planner.collectives.pipeline import flow_down, flow_up, in_chunks
from emulator.planner.collectives.trees import Place, binomial, binomial_subtree, chain, star
from emulator.planner.schedule import Collective, Lane, Step


def broadcast_tree(collective: Collective, /) -> Sequence[Lane]:
    """Binomial tree: the last member has it after ceil(log2(n)) hops. Sends s bytes per child, the root most of all.

    Source: Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005).
    """
    return [_down(collective, binomial)]


def broadcast_tree_bytes(collective: Collective) -> tuple[int, int]:
    """(sent, received) of `broadcast_tree`."""
    return _per_edge(collective, binomial)


def broadcast_ring(collective: Collective, /) -> Sequence[Lane]:
    """A chain from the root in c chunks: c + n - 2 hops. Sends s bytes, the last of the chain none; receives s.

    Source: the linear pipeline in Sanders, Speck, Träff, Parallel Computing 35 (2009).
    """
    return [_chunks_down(collective)]


def broadcast_ring_bytes(collective: Collective) -> tuple[int, int]:
    """(sent, received) of `broadcast_ring`."""
    return _per_edge(collective, chain)


def broadcast_parallel(collective: Collective, /) -> Sequence[Lane]:
    """The root sends to everybody at once: 1 hop, (n - 1) s bytes sent by the root, s received by each other."""
    return [_down(collective, star)]


def broadcast_parallel_bytes(collective: Collective) -> tuple[int, int]:
    """(sent, received) of `broadcast_parallel`."""
    is_root, size = collective.member == collective.root, collective.size_bytes
    return ((collective.members - 1) * size, 0) if is_root else (0, size)


def reduce_tree(collective: Collective, /) -> Sequence[Lane]:
    """Binomial tree upwards: ceil(log2(n)) hops. Sends s bytes, the root none; receives s bytes per child.

    Source: Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005).
    """
    return [_up(collective, binomial)]


def reduce_tree_bytes(collective: Collective) -> tuple[int, int]:
    """(sent, received) of `reduce_tree`."""
    return _per_edge(collective, binomial)[::-1]


def reduce_ring(collective: Collective, /) -> Sequence[Lane]:
    """A chain to the root in c chunks: c + n - 2 hops. Sends s bytes, the root none; receives s, the far end none.

    Source: the linear pipeline in Sanders, Speck, Träff, Parallel Computing 35 (2009).
    """
    return [_chunks_up(collective)]


def reduce_ring_bytes(collective: Collective) -> tuple[int, int]:
    """(sent, received) of `reduce_ring`."""
    return _per_edge(collective, chain)[::-1]


def reduce_parallel(collective: Collective, /) -> Sequence[Lane]:
    """Everybody sends to the root at once: 1 hop, s bytes sent by each other, (n - 1) s received by the root."""
    return [_up(collective, star)]


def reduce_parallel_bytes(collective: Collective) -> tuple[int, int]:
    """(sent, received) of `reduce_parallel`."""
    return broadcast_parallel_bytes(collective)[::-1]


def gather_tree(collective: Collective, /) -> Sequence[Lane]:
    """Binomial tree upwards: ceil(log2(n)) hops; with m members in its subtree sends m s bytes, receives (m - 1) s.

    Source: Chan, Heimlich, Purkayastha, van de Geijn, CCPE 19 (2007).
    """
    return [_gather(_shards(collective), collective, binomial)]


def gather_tree_bytes(collective: Collective) -> tuple[int, int]:
    """(sent, received) of `gather_tree`."""
    return _subtree_bytes(_shards(collective), collective)


def gather_parallel(collective: Collective, /) -> Sequence[Lane]:
    """Everybody sends its shard to the root at once: 1 hop, s bytes sent by each other, (n - 1) s received there."""
    return [_gather(_shards(collective), collective, star)]


def gather_parallel_bytes(collective: Collective) -> tuple[int, int]:
    """(sent, received) of `gather_parallel`."""
    return reduce_parallel_bytes(collective)


def scatter_tree(collective: Collective, /) -> Sequence[Lane]:
    """Binomial tree downwards: ceil(log2(n)) hops; receives the blocks of its subtree, sends them on without its own.

    Source: Chan, Heimlich, Purkayastha, van de Geijn, CCPE 19 (2007).
    """
    return [_scatter(_array(collective), collective, binomial)]


def scatter_tree_bytes(collective: Collective) -> tuple[int, int]:
    """(sent, received) of `scatter_tree`."""
    return _subtree_bytes(_array(collective), collective)[::-1]


def scatter_parallel(collective: Collective, /) -> Sequence[Lane]:
    """The root sends block i to each member i at once: 1 hop, s - b(root) bytes sent, b(i) received."""
    return [_scatter(_array(collective), collective, star)]


def scatter_parallel_bytes(collective: Collective) -> tuple[int, int]:
    """(sent, received) of `scatter_parallel`."""
    own = _array(collective).size(collective.member)
    return (collective.size_bytes - own, 0) if collective.member == collective.root else (0, own)


def _place(collective: Collective, shape: Callable[[int, int, int], Place]) -> Place:
    return shape(collective.members, collective.member, collective.root)


def _down(collective: Collective, shape: Callable[[int, int, int], Place]) -> Iterator[Step]:
    if collective.size_bytes:
        yield from flow_down(_place(collective, shape), Blocks(collective.size_bytes, 1))


def _up(collective: Collective, shape: Callable[[int, int, int], Place]) -> Iterator[Step]:
    if collective.size_bytes:
        yield from flow_up(_place(collective, shape), Blocks(collective.size_bytes, 1))


def _chunks_down(collective: Collective) -> Iterator[Step]:
    if collective.size_bytes:
        yield from flow_down(_place(collective, chain), in_chunks(collective.size_bytes))


def _chunks_up(collective: Collective) -> Iterator[Step]:
    if collective.size_bytes:
        yield from flow_up(_place(collective, chain), in_chunks(collective.size_bytes))


def _per_edge(collective: Collective, shape: Callable[[int, int, int], Place]) -> tuple[int, int]:
    """(bytes to the children, bytes from the parent), the whole array on every edge."""
    place, size = _place(collective, shape), collective.size_bytes
    return len(place.children) * size, 0 if place.parent is None else size


def _shards(collective: Collective) -> Blocks:
    return Blocks(collective.members * collective.size_bytes, collective.members)


def _array(collective: Collective) -> Blocks:
    return Blocks(collective.size_bytes, collective.members)


def _subtree(collective: Collective, member: int, shape: Callable[[int, int, int], Place]) -> int:
    """How many members' blocks cross the edge above `member`."""
    return 1 if shape is star else binomial_subtree(collective.members, member, collective.root)


def _gather(blocks: Blocks, collective: Collective, shape: Callable[[int, int, int], Place]) -> Iterator[Step]:
    place, member = _place(collective, shape), collective.member
    recvs = [
        recv
        for child in place.children
        for recv in transfers(child, blocks.arc(child, _subtree(collective, child, shape)))
    ]
    if recvs:
        yield Step((), recvs)
    if place.parent is not None:
        yield Step(transfers(place.parent, blocks.arc(member, _subtree(collective, member, shape))))


def _scatter(blocks: Blocks, collective: Collective, shape: Callable[[int, int, int], Place]) -> Iterator[Step]:
    place, member = _place(collective, shape), collective.member
    if place.parent is not None:
        yield Step((), transfers(place.parent, blocks.arc(member, _subtree(collective, member, shape))))
    sends = [
        send
        for child in place.children
        for send in transfers(child, blocks.arc(child, _subtree(collective, child, shape)))
    ]
    if sends:
        yield Step(sends)


def _subtree_bytes(blocks: Blocks, collective: Collective) -> tuple[int, int]:
    """(bytes up, bytes from below) in the binomial tree."""
    member, root = collective.member, collective.root
    below = blocks.bytes_in_arc(member, binomial_subtree(collective.members, member, root))
    return 0 if member == root else below, below - blocks.size(member)
