"""Traffic of the built-in algorithms in closed form: arrays over all senders, phase by phase.

A function here returns what its algorithm in emulator.planner.collectives sends. Tests compare the two for every
algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeAlias

import numpy as np

from emulator.planner.built_in import channels_of
from emulator.planner.collectives.halving_doubling import powers_below
from emulator.planner.collectives.trees import TreePlace, chain, in_chunks, two_trees
from emulator.planner.schedule import BARRIER_BYTES, Collective, block
from emulator.planner.traffic import closed_forms_by_layout as by_layout
from emulator.planner.traffic.phase import Phase
from emulator.trace.meaning.model import CommKind, IntArray

Phases: TypeAlias = Iterator[Phase]
ClosedForm: TypeAlias = Callable[[Collective, IntArray], Phases]


class _BlockSizes:
    """Sizes of the blocks that `schedule.block` cuts an array into, for many indices at once."""

    def __init__(self, size_bytes: int, parts: int) -> None:
        self.parts = parts
        self._base, self._longer = divmod(size_bytes, parts)

    def size(self, index: IntArray) -> IntArray:
        """Bytes of each block; indices wrap around."""
        return self._base + (index % self.parts < self._longer).astype(np.int64)

    def span(self, first: IntArray, count: int | IntArray) -> IntArray:
        """Bytes of `count` blocks starting at `first`, without wrapping around."""
        return self._offset(first + count) - self._offset(first)

    def arc(self, first: IntArray, count: int) -> IntArray:
        """Bytes of `count` blocks starting at `first`, wrapping around."""
        end = first + count
        within = np.minimum(end, self.parts)
        return self.span(first, within - first) + self._offset(end - within)

    def _offset(self, index: IntArray) -> IntArray:
        return index * self._base + np.minimum(index, self._longer)


def _constant(senders: IntArray, size_bytes: int) -> IntArray:
    return np.full(len(senders), size_bytes, dtype=np.int64)


def _peer_at(collective: Collective, senders: IntArray, distance: int = 1) -> IntArray:
    return (senders + distance) % collective.members


# Rings: one phase, because every step sends to the same neighbour.


def _ring_all_reduce(collective: Collective, senders: IntArray) -> Phases:
    n = collective.members
    yield Phase(senders, _peer_at(collective, senders), _round_trip(collective.size_bytes, n, senders), 2 * (n - 1))


def _round_trip(size_bytes: int, parts: int, position: IntArray) -> IntArray:
    blocks = _BlockSizes(size_bytes, parts)
    return 2 * size_bytes - blocks.size(position) - blocks.size(position + 1)


def _bidirectional_ring(collective: Collective, senders: IntArray) -> Phases:
    n = collective.members
    forth, back = (block(collective.size_bytes, 2, half)[1] for half in (0, 1))
    sizes = [_round_trip(forth, n, senders), _round_trip(back, n, -senders % n)]
    receivers = [_peer_at(collective, senders), _peer_at(collective, senders, -1)]
    yield Phase(np.tile(senders, 2), np.concatenate(receivers), np.concatenate(sizes), 2 * (n - 1))


def _ring_all_gather(collective: Collective, senders: IntArray) -> Phases:
    n = collective.members
    yield Phase(senders, _peer_at(collective, senders), _constant(senders, (n - 1) * collective.size_bytes), n - 1)


def _ring_reduce_scatter(collective: Collective, senders: IntArray) -> Phases:
    n = collective.members
    sizes = collective.size_bytes - _BlockSizes(collective.size_bytes, n).size(senders)
    yield Phase(senders, _peer_at(collective, senders), sizes, n - 1)


# Full exchanges.


def _all_pairs(collective: Collective, senders: IntArray) -> tuple[IntArray, IntArray]:
    n = collective.members
    receivers = (senders[:, None] + np.arange(1, n, dtype=np.int64)) % n
    return np.repeat(senders, n - 1), receivers.ravel()


def _direct_all_reduce(collective: Collective, senders: IntArray) -> Phases:
    blocks = _BlockSizes(collective.size_bytes, collective.members)
    source, target = _all_pairs(collective, senders)
    yield Phase(source, target, blocks.size(source) + blocks.size(target), 2)


def _direct_all_gather(collective: Collective, senders: IntArray) -> Phases:
    source, target = _all_pairs(collective, senders)
    yield Phase(source, target, _constant(source, collective.size_bytes))


def _block_to_each(collective: Collective, senders: IntArray) -> Phases:
    source, target = _all_pairs(collective, senders)
    yield Phase(source, target, _BlockSizes(collective.size_bytes, collective.members).size(target))


def _pairwise(collective: Collective, senders: IntArray) -> Phases:
    blocks = _BlockSizes(collective.size_bytes, collective.members)
    for distance in range(1, collective.members):
        target = _peer_at(collective, senders, distance)
        yield Phase(senders, target, blocks.size(target))


# Halving and doubling.


def _halving(blocks: _BlockSizes, position: IntArray, distances: list[int]) -> list[tuple[int, IntArray, IntArray]]:
    """Per step: (distance, bytes of the half sent, bytes of the half kept)."""
    first, count, found = np.zeros_like(position), blocks.parts, []
    for distance in distances:
        count //= 2
        upper = (position & distance) > 0
        kept, given = first + np.where(upper, count, 0), first + np.where(upper, 0, count)
        found.append((distance, blocks.span(given, count), blocks.span(kept, count)))
        first = kept
    return found


def _halving_doubling_all_reduce(collective: Collective, senders: IntArray) -> Phases:
    def exchange(places: int, position: IntArray) -> Iterator[tuple[int, IntArray]]:
        steps = _halving(_BlockSizes(collective.size_bytes, places), position, powers_below(places))
        yield from ((distance, given) for distance, given, _ in steps)
        yield from ((distance, held) for distance, _, held in reversed(steps))

    return _folded(collective, senders, exchange)


def _recursive_doubling(collective: Collective, senders: IntArray) -> Phases:
    def exchange(places: int, position: IntArray) -> Iterator[tuple[int, IntArray]]:
        yield from ((distance, _constant(position, collective.size_bytes)) for distance in powers_below(places))

    return _folded(collective, senders, exchange)


def _folded(
    collective: Collective, senders: IntArray, exchange: Callable[[int, IntArray], Iterator[tuple[int, IntArray]]]
) -> Phases:
    """Members beyond a power of two send their array and receive the result; the others exchange by distance."""
    n, size = collective.members, collective.size_bytes
    places = 1 << (n.bit_length() - 1)
    extra = n - places
    folded = senders[(senders < 2 * extra) & (senders % 2 == 0)]
    kept = senders[(senders >= 2 * extra) | (senders % 2 == 1)]
    position = np.where(kept >= 2 * extra, kept - extra, kept // 2)
    yield Phase(folded, folded + 1, _constant(folded, size))
    for distance, sizes in exchange(places, position):
        yield Phase(kept, _unfolded(position ^ distance, extra), sizes)
    helping = kept[position < extra]
    yield Phase(helping, helping - 1, _constant(helping, size))


def _unfolded(position: IntArray, extra: int) -> IntArray:
    """Member number at a position."""
    return np.where(position < extra, 2 * position + 1, position + extra)


def _halving_doubling_all_gather(collective: Collective, senders: IntArray) -> Phases:
    n, size = collective.members, collective.size_bytes
    if n & (n - 1):
        for held in powers_below(n):
            yield Phase(senders, _peer_at(collective, senders, -held), _constant(senders, min(held, n - held) * size))
        return
    for distance, _, held_bytes in reversed(_halving(_BlockSizes(n * size, n), senders, powers_below(n)[::-1])):
        yield Phase(senders, senders ^ distance, held_bytes)


def _halving_doubling_reduce_scatter(collective: Collective, senders: IntArray) -> Phases:
    n = collective.members
    blocks = _BlockSizes(collective.size_bytes, n)
    if n & (n - 1):
        for held in reversed(powers_below(n)):
            target = _peer_at(collective, senders, held)
            yield Phase(senders, target, blocks.arc(target, min(held, n - held)))
        return
    for distance, given, _ in _halving(blocks, senders, powers_below(n)[::-1]):
        yield Phase(senders, senders ^ distance, given)


def _dissemination(collective: Collective, senders: IntArray) -> Phases:
    for distance in powers_below(collective.members):
        yield Phase(senders, _peer_at(collective, senders, distance), _constant(senders, BARRIER_BYTES))


# Trees with pipelined chunks: one phase up to the root, one phase down from it.


def _double_binary_tree(collective: Collective, senders: IntArray) -> Phases:
    halves = [block(collective.size_bytes, 2, half)[1] for half in (0, 1)]
    places = [two_trees(collective.members, member) for member in senders.tolist()]
    steps = in_chunks(halves[0]).parts if halves[0] else 1
    for direction in (_to_parent, _to_children):
        edges = [
            (member, peer, halves[tree])
            for member, both in zip(senders.tolist(), places, strict=True)
            for tree in (0, 1)
            for peer in direction(both[tree])
        ]
        if edges:
            yield Phase.of(edges, steps)


def _chain_down(collective: Collective, senders: IntArray) -> Phases:
    yield from _chain(collective, senders, _to_children)


def _chain_up(collective: Collective, senders: IntArray) -> Phases:
    yield from _chain(collective, senders, _to_parent)


def _chain(collective: Collective, senders: IntArray, direction: Callable[[TreePlace], list[int]]) -> Phases:
    n, size = collective.members, collective.size_bytes
    edges = [(m, peer, size) for m in senders.tolist() for peer in direction(chain(n, m, collective.root))]
    if edges:
        yield Phase.of(edges, in_chunks(size).parts)


def _to_parent(place: TreePlace) -> list[int]:
    return [] if place.parent is None else [place.parent]


def _to_children(place: TreePlace) -> list[int]:
    return list(place.children)


_CLOSED_FORMS: Mapping[tuple[CommKind, str], ClosedForm] = {
    (CommKind.ALL_REDUCE, "ring"): _ring_all_reduce,
    (CommKind.ALL_REDUCE, "bidirectional_ring"): _bidirectional_ring,
    (CommKind.ALL_REDUCE, "halving_doubling"): _halving_doubling_all_reduce,
    (CommKind.ALL_REDUCE, "recursive_doubling"): _recursive_doubling,
    (CommKind.ALL_REDUCE, "double_binary_tree"): _double_binary_tree,
    (CommKind.ALL_REDUCE, "direct"): _direct_all_reduce,
    (CommKind.ALL_GATHER, "ring"): _ring_all_gather,
    (CommKind.ALL_GATHER, "halving_doubling"): _halving_doubling_all_gather,
    (CommKind.ALL_GATHER, "direct"): _direct_all_gather,
    (CommKind.REDUCE_SCATTER, "ring"): _ring_reduce_scatter,
    (CommKind.REDUCE_SCATTER, "halving_doubling"): _halving_doubling_reduce_scatter,
    (CommKind.REDUCE_SCATTER, "direct"): _block_to_each,
    (CommKind.ALL_TO_ALL, "pairwise"): _pairwise,
    (CommKind.ALL_TO_ALL, "parallel"): _block_to_each,
    (CommKind.BROADCAST, "ring"): _chain_down,
    (CommKind.REDUCE, "ring"): _chain_up,
    (CommKind.BARRIER, "dissemination"): _dissemination,
    (CommKind.ALL_REDUCE, "hierarchical"): by_layout.hierarchical_all_reduce,
    (CommKind.ALL_GATHER, "hierarchical"): by_layout.hierarchical_all_gather,
    (CommKind.ALL_GATHER, "pat"): by_layout.pat_all_gather,
    (CommKind.REDUCE_SCATTER, "hierarchical"): by_layout.hierarchical_reduce_scatter,
    (CommKind.REDUCE_SCATTER, "pat"): by_layout.pat_reduce_scatter,
    (CommKind.ALL_TO_ALL, "pxn"): by_layout.pxn,
}


def closed_form_of(kind: CommKind, name: str) -> ClosedForm | None:
    """The closed form of an algorithm; None if it has none."""
    return partial(by_layout.in_channels, name) if channels_of(name) else _CLOSED_FORMS.get((kind, name))
