"""All-reduce: every member ends with the sum of all arrays. n members, s bytes, block i with b(i) bytes.

Barrier: no member is done before all have started. n members; messages of BARRIER_BYTES.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from emulator.planner.collectives.blocks import Blocks, BlockSlices, array_of, transfer
from emulator.planner.collectives.patterns import (
    binomial,
    direct_gather,
    direct_scatter,
    doubling,
    flow_down,
    flow_up,
    halving,
    in_chunks,
    in_slices,
    powers_below,
    ring_pass,
    two_trees,
)
from emulator.planner.schedule import BARRIER_BYTES, Collective, Lane, Step, Transfer, block


def ring(collective: Collective, /) -> Sequence[Lane]:
    """Reduce-scatter, then all-gather around the ring: 2(n - 1) steps of one block; large blocks are sliced.

    Member i sends 2s - b(i) - b(i + 1) = 2s(n - 1)/n bytes and receives 2s - b(i - 1) - b(i).

    Source: Patarasuk & Yuan, JPDC 69 (2009).
    """
    n, member = collective.members, collective.member
    blocks = array_of(collective)
    up, down = (member + 1) % n, (member - 1) % n
    return [_round_trip(part, position=member, to=up, source=down) for part in in_slices(blocks)]


def bidirectional_ring(collective: Collective, /) -> Sequence[Lane]:
    """Two rings in opposite directions, each with half of the array: 2(n - 1) steps of half a block per direction.

    Every member sends and receives 2s(n - 1)/n bytes, as in `ring`, half of them to each neighbour in the ring.

    Source: Patarasuk & Yuan, JPDC 69 (2009), applied in both directions.
    """
    n, member = collective.members, collective.member
    forth, back = _halves(collective)
    up, down = (member + 1) % n, (member - 1) % n
    return [
        _round_trip(forth, position=member, to=up, source=down),
        _round_trip(back, position=-member % n, to=down, source=up),
    ]


def halving_doubling(collective: Collective, /) -> Sequence[Lane]:
    """Recursive vector halving with distance doubling, then the reverse: 2 log2(p) steps, p = 2^k the largest <= n.

    If n > p, the first n - p even members are folded: each sends its array to the next member and receives the result,
    which takes 2 more steps. A member sends and receives 2s(p - 1)/p bytes, s more if its predecessor is folded; a
    folded member s.

    Source: Rabenseifner, ICCS 2004; Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005).
    """
    fold = _Fold(collective.members)
    blocks, distances = Blocks(collective.size_bytes, fold.positions), powers_below(fold.positions)

    def exchange(position: int) -> Iterator[Step]:
        yield from halving(blocks, position=position, distances=distances, peer_of=fold.member)
        yield from doubling(blocks, position=position, distances=distances, peer_of=fold.member)

    return [_folded(collective, fold, exchange)]


def recursive_doubling(collective: Collective, /) -> Sequence[Lane]:
    """Partners at distances 1, 2, 4 … exchange and add whole arrays: log2(p) steps, p = 2^k the largest <= n.

    Half the steps and messages of `halving_doubling`, with the same folding, but more bytes: a member sends and
    receives s log2(p), s more if its predecessor is folded; a folded member s.

    Source: Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005).
    """
    fold, whole = _Fold(collective.members), (0, collective.size_bytes)

    def exchange(position: int) -> Iterator[Step]:
        for distance in powers_below(fold.positions):
            both_ways = transfer(fold.member(position ^ distance), whole)
            yield Step(both_ways, both_ways, True)

    return [_folded(collective, fold, exchange)]


def double_binary_tree(collective: Collective, /) -> Sequence[Lane]:
    """Two binary trees, each with half of the array: reduced towards the root, copied back, in a pipeline of chunks.

    About 2(c + h) steps for c chunks and trees of height h. A member sends and receives s/2 bytes per edge: at most
    3s/2 in the tree in which it is an inner member, and s/2 in the other, where it is a leaf.

    Source: Sanders, Speck, Träff, Parallel Computing 35 (2009).
    """
    return [_up_and_down(collective, tree) for tree in (0, 1)]


def direct(collective: Collective, /) -> Sequence[Lane]:
    """Every member reduces its own block and sends it to all others: 2 steps of n - 1 transfers.

    Member i sends and receives s - b(i) + (n - 1) b(i) = 2s(n - 1)/n bytes.

    Source: Chan, Heimlich, Purkayastha, van de Geijn, CCPE 19 (2007), for the composition and the lower bound it meets.
    """
    blocks, member = array_of(collective), collective.member
    return [chain(direct_scatter(blocks, member=member), direct_gather(blocks, member=member))]


def _round_trip(blocks: Blocks | BlockSlices, *, position: int, to: int, source: int) -> Iterator[Step]:
    yield from ring_pass(blocks, first=(position or blocks.parts) - 1, to=to, source=source, reduces=True)
    yield from ring_pass(blocks, first=position, to=to, source=source, reduces=False)


def _halves(collective: Collective) -> tuple[Blocks, Blocks]:
    (low, low_size), (high, high_size) = (block(collective.size_bytes, 2, half) for half in (0, 1))
    n = collective.members
    return Blocks(low_size, n, start=low), Blocks(high_size, n, start=high)


class _Fold:
    """Maps n members to `positions` = 2^k; of the first 2 * `extra` members, the even ones are folded."""

    def __init__(self, members: int) -> None:
        self.positions = 1 << (members.bit_length() - 1)
        self.extra = members - self.positions

    def position(self, member: int) -> int | None:
        if member >= 2 * self.extra:
            return member - self.extra
        return member // 2 if member % 2 else None

    def member(self, position: int) -> int:
        return 2 * position + 1 if position < self.extra else position + self.extra


def _folded(collective: Collective, fold: _Fold, exchange: Callable[[int], Iterator[Step]]) -> Iterator[Step]:
    """Steps of a folded member, which sends its array and receives the result, or those of `exchange` at a position."""
    member, whole = collective.member, (0, collective.size_bytes)
    position = fold.position(member)
    if position is None:
        yield Step(transfer(member + 1, whole), transfer(member + 1, whole))
        return
    if position < fold.extra:
        yield Step((), transfer(member - 1, whole), True)
    yield from exchange(position)
    if position < fold.extra:
        yield Step(transfer(member - 1, whole))


def _up_and_down(collective: Collective, tree: int) -> Iterator[Step]:
    offset, size = block(collective.size_bytes, 2, tree)
    if size == 0:
        return
    place = two_trees(collective.members, collective.member)[tree]
    chunks = in_chunks(size, start=offset)
    yield from flow_up(place, chunks)
    yield from flow_down(place, chunks)


def dissemination(collective: Collective, /) -> Sequence[Lane]:
    """In step k, member i sends to i + 2^k and receives from i - 2^k: ceil(log2(n)) steps, one message each way.

    Source: Hensgen, Finkel, Manber, International Journal of Parallel Programming 17 (1988).
    """
    return [_dissemination(collective)]


def barrier_tree(collective: Collective, /) -> Sequence[Lane]:
    """Up a binomial tree and down again: 2 ceil(log2(n)) hops, one message each way per edge.

    Source: Mellor-Crummey & Scott, ACM TOCS 9 (1991), for tree barriers.
    """
    return [_barrier_tree(collective)]


def _message(peer: int) -> Transfer:
    return Transfer(peer, 0, BARRIER_BYTES)


def _dissemination(collective: Collective) -> Iterator[Step]:
    n, member = collective.members, collective.member
    for distance in powers_below(n):
        yield Step((_message((member + distance) % n),), (_message((member - distance) % n),))


def _barrier_tree(collective: Collective) -> Iterator[Step]:
    place = binomial(collective.members, collective.member, 0)
    children = [_message(child) for child in place.children]
    if children:
        yield Step((), children)
    if place.parent is not None:
        parent = (_message(place.parent),)
        yield Step(parent, parent)
    if children:
        yield Step(children)
