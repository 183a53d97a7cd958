"""Traffic of the built-in algorithms in closed form: arrays over all senders, phase by phase.

A function here returns what its algorithm in emulator.planner.collectives sends. Tests compare the two for every
algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np

from emulator.planner.built_in import channels_of
from emulator.planner.collectives import by_layout
from emulator.planner.collectives.all_gather_reduce_scatter import aggregate_bytes, carried
from emulator.planner.collectives.all_to_all import given_on_node
from emulator.planner.collectives.blocks import array_of
from emulator.planner.collectives.by_layout import Ring
from emulator.planner.collectives.patterns import TreePlace, chain, in_chunks, powers_below, two_trees
from emulator.planner.group_layout import apart
from emulator.planner.schedule import BARRIER_BYTES, Collective, block
from emulator.planner.traffic.phase import FullExchange, Phase
from emulator.trace.meaning.model import CommKind, IntArray

Stage: TypeAlias = tuple[int, list[tuple[int, int]]]
"""(steps, (peer, bytes) of all of them), of one member."""
Phases: TypeAlias = Iterator[Phase]


def in_channels(name: str, collective: Collective, senders: IntArray) -> Phases:
    """One phase: in each ring a member sends to its successor alone."""
    count = channels_of(name) or 1
    layout = collective.layout or apart(collective.members)
    rings = [Ring(layout, channel) for channel in range(count)]
    halves = 2 if collective.kind is CommKind.ALL_REDUCE else 1
    edges = [
        (member, ring.member(ring.position(member) + 1), by_layout.sent_in(collective, member, ring, count))
        for member in senders.tolist()
        for ring in rings
    ]
    yield Phase.of(edges, halves * (collective.members - 1))


def hierarchical_all_reduce(collective: Collective, senders: IntArray) -> Phases:
    """On the node, beyond it and back."""
    yield from _staged(collective, senders, lambda view: [*_half(view, reduces=True), *_half(view, reduces=False)])


def hierarchical_all_gather(collective: Collective, senders: IntArray) -> Phases:
    """Beyond the node, then on it."""
    yield from _staged(collective, senders, lambda view: _half(view, reduces=False))


def hierarchical_reduce_scatter(collective: Collective, senders: IntArray) -> Phases:
    """On the node, then beyond it."""
    yield from _staged(collective, senders, lambda view: _half(view, reduces=True))


def pxn(collective: Collective, senders: IntArray) -> Phases:
    """On the node, then a phase for each distance between nodes."""
    yield from _staged(collective, senders, lambda view: [(1, given_on_node(view))])
    layout = collective.layout or apart(collective.members)
    nodes, members = len(layout.nodes), np.arange(collective.members, dtype=np.int64)
    node_of, column_of, owners = np.array(layout.node_of), np.array(layout.column_of), np.array(layout.owners)
    counts = np.array([len(own) for own in layout.nodes], dtype=np.int64)
    blocks = array_of(collective)
    sizes = blocks.size(-1) + (members < blocks.longer).astype(np.int64)
    for distance in range(1, nodes):
        sources = (node_of - distance) % nodes
        through = owners[sources, column_of].astype(np.int64)
        chosen = np.isin(through, senders) if len(senders) < len(members) else np.ones(len(members), dtype=np.bool_)
        yield Phase(through[chosen], members[chosen], (sizes * counts[sources])[chosen])


def _half(view: Collective, *, reduces: bool) -> Iterable[Stage]:
    return by_layout.stages(by_layout.grid_of(view), reduces=reduces)


def _staged(collective: Collective, senders: IntArray, stages: Callable[[Collective], Iterable[Stage]]) -> Phases:
    """A phase for each stage, from the stages of every sender."""
    found: list[tuple[int, list[tuple[int, int, int]]]] = []
    for member in senders.tolist():
        for at, (steps, sent) in enumerate(stages(replace(collective, member=member))):
            if at == len(found):
                found.append((steps, []))
            found[at][1].extend((member, peer, size) for peer, size in sent)
    for steps, edges in found:
        yield Phase.of(edges, steps)


def pat_all_gather(collective: Collective, senders: IntArray) -> Phases:
    """The farthest first."""
    blocks = array_of(collective)
    for distance in reversed(powers_below(blocks.parts)):
        size = len(carried(blocks, distance)) * collective.size_bytes
        yield Phase(senders, (senders + distance) % blocks.parts, np.full(len(senders), size, dtype=np.int64))


def pat_reduce_scatter(collective: Collective, senders: IntArray) -> Phases:
    """The nearest first."""
    blocks = array_of(collective)
    for distance in powers_below(blocks.parts):
        behind = carried(blocks, distance)
        receivers = (senders - distance) % blocks.parts
        sizes = [aggregate_bytes(blocks, receiver, behind) for receiver in receivers.tolist()]
        yield Phase(senders, receivers, np.array(sizes, dtype=np.int64))


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
def full_exchange_of(name: str, collective: Collective) -> FullExchange | None:
    """What the members exchange, if every one sends to every other; None if not."""
    n, nothing = collective.members, np.zeros(collective.members, dtype=np.int64)
    if (collective.kind, name) == (CommKind.ALL_GATHER, "direct"):
        return FullExchange(nothing + collective.size_bytes, nothing)
    blocks = _BlockSizes(collective.size_bytes, n).size(np.arange(n, dtype=np.int64))
    match collective.kind, name:
        case CommKind.ALL_REDUCE, "direct":
            return FullExchange(blocks, blocks)
        case (CommKind.REDUCE_SCATTER | CommKind.REDUCE_SCATTER_BLOCK, "direct") | (
            CommKind.ALL_TO_ALL,
            "parallel" | "pairwise",
        ):
            return FullExchange(nothing, blocks, is_by_distance=name == "pairwise")
    return None


def _exchange(name: str, steps: int = 1) -> ClosedForm:
    """One phase with all pairs."""

    def exchange_phase(collective: Collective, senders: IntArray) -> Phases:
        shares, n = full_exchange_of(name, collective), collective.members
        assert shares is not None
        target = (senders[:, None] + np.arange(1, n, dtype=np.int64)) % n
        sizes = shares.sent[senders][:, None] + shares.received[target]
        yield Phase(np.repeat(senders, n - 1), target.ravel(), sizes.ravel(), steps)

    return exchange_phase


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
    (CommKind.ALL_REDUCE, "direct"): _exchange("direct", steps=2),
    (CommKind.ALL_GATHER, "ring"): _ring_all_gather,
    (CommKind.ALL_GATHER, "halving_doubling"): _halving_doubling_all_gather,
    (CommKind.ALL_GATHER, "direct"): _exchange("direct"),
    (CommKind.REDUCE_SCATTER, "ring"): _ring_reduce_scatter,
    (CommKind.REDUCE_SCATTER, "halving_doubling"): _halving_doubling_reduce_scatter,
    (CommKind.REDUCE_SCATTER, "direct"): _exchange("direct"),
    (CommKind.ALL_TO_ALL, "pairwise"): _pairwise,
    (CommKind.ALL_TO_ALL, "parallel"): _exchange("parallel"),
    (CommKind.BROADCAST, "ring"): _chain_down,
    (CommKind.REDUCE, "ring"): _chain_up,
    (CommKind.BARRIER, "dissemination"): _dissemination,
    (CommKind.ALL_REDUCE, "hierarchical"): hierarchical_all_reduce,
    (CommKind.ALL_GATHER, "hierarchical"): hierarchical_all_gather,
    (CommKind.ALL_GATHER, "pat"): pat_all_gather,
    (CommKind.REDUCE_SCATTER, "hierarchical"): hierarchical_reduce_scatter,
    (CommKind.REDUCE_SCATTER, "pat"): pat_reduce_scatter,
    (CommKind.ALL_TO_ALL, "pxn"): pxn,
}


def closed_form_of(kind: CommKind, name: str) -> ClosedForm | None:
    """The closed form of an algorithm; None if it has none."""
    return partial(in_channels, name) if channels_of(name) else _CLOSED_FORMS.get((kind, name))
