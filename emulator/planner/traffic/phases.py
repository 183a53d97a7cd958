"""Who sends how much to whom in a collective: whole groups at once, in numbers instead of steps.

`schedule` says what one member does, step after step; here the same traffic is arrays over all members, for plans of
worlds in which nobody could walk every schedule. Algorithms without a closed form here are walked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from emulator.planner.algorithms import canonical_kind, schedule
from emulator.planner.collectives.halving_doubling import powers_below
from emulator.planner.collectives.pipeline import in_chunks
from emulator.planner.collectives.trees import Place, chain, two_trees
from emulator.planner.schedule import BARRIER_BYTES, Collective, block
from emulator.trace.model import CommKind, IntArray


@dataclass(frozen=True, slots=True)
class Phase:
    """Transfers that run side by side, and how many steps of the algorithm look like this.

    Attributes:
        senders, receivers: int64, shape (transfers,), member numbers.
        sizes: int64, shape (transfers,), bytes over all the steps, at least 1.
        steps: how many; a member sends to the same receivers in each.
    """

    senders: IntArray
    receivers: IntArray
    sizes: IntArray
    steps: int = 1


Phases: TypeAlias = Iterator[Phase]
ClosedForm: TypeAlias = Callable[[Collective, IntArray], Phases]


def phases(name: str, collective: Collective, senders: IntArray | None = None) -> Phases:
    """What a group does, phase by phase, in the order of the algorithm; lanes run side by side.

    Args:
        name: the algorithm.
        collective: as any member sees it; its member number does not matter. Not for uneven splits.
        senders: only what these members send; None = all.

    Raises:
        PlanError: no such algorithm.
    """
    if senders is None:
        senders = np.arange(collective.members, dtype=np.int64)
    schedule(name, collective)  # refuses what does not exist
    if not _moves_anything(collective):
        return
    closed = _CLOSED.get((canonical_kind(collective.kind), name))
    for phase in closed(collective, senders) if closed else _walked(name, collective, senders):
        kept = phase.sizes > 0
        if kept.any():
            yield phase if kept.all() else _only(phase, kept)


def peer_totals(name: str, collective: Collective, senders: IntArray | None = None) -> Phase:
    """Everything as one phase: a pair may occur more than once. Arguments and errors as `phases`."""
    if name == "pairwise" and canonical_kind(collective.kind) is CommKind.ALL_TO_ALL:
        name = "parallel"  # the same pairs and bytes without a phase for every distance
    found = list(phases(name, collective, senders))
    if not found:
        nothing = np.zeros(0, dtype=np.int64)
        return Phase(nothing, nothing, nothing, 0)
    return Phase(
        np.concatenate([phase.senders for phase in found]),
        np.concatenate([phase.receivers for phase in found]),
        np.concatenate([phase.sizes for phase in found]),
        sum(phase.steps for phase in found),
    )


def peer_bytes(name: str, collective: Collective) -> tuple[IntArray, IntArray]:
    """(peers, bytes) that this member sends to: peers ascending and distinct, bytes at least 1; int64 both.

    Raises:
        PlanError: as `schedule`.
    """
    if collective.send_splits is not None:
        schedule(name, collective)
        sizes = np.array(collective.send_splits, dtype=np.int64)
        sizes[collective.member] = 0
    else:
        totals = peer_totals(name, collective, np.array([collective.member], dtype=np.int64))
        sizes = np.zeros(collective.members, dtype=np.int64)
        np.add.at(sizes, totals.receivers, totals.sizes)
    peers = np.flatnonzero(sizes)
    return peers, sizes[peers]


def transfers_per_group(name: str, kind: CommKind, members: int) -> int:
    """About how many transfers `peer_totals` has: n² where everybody sends to everybody, else a few per member."""
    everybody = name in ("direct", "parallel", "pairwise") and canonical_kind(kind) not in _ROOTED
    return members * (members - 1) if everybody else members * 2 * members.bit_length()


_ROOTED = (CommKind.BROADCAST, CommKind.REDUCE, CommKind.GATHER, CommKind.SCATTER)


def _moves_anything(collective: Collective) -> bool:
    return collective.members > 1 and (collective.size_bytes > 0 or collective.kind is CommKind.BARRIER)


def _only(phase: Phase, kept: np.typing.NDArray[np.bool_]) -> Phase:
    return Phase(phase.senders[kept], phase.receivers[kept], phase.sizes[kept], phase.steps)


def _walked(name: str, collective: Collective, senders: IntArray) -> Phases:
    steps: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for sender in senders.tolist():
        for lane in schedule(name, _seen_from(collective, sender)):
            for number, step in enumerate(lane):
                steps[number] += [(sender, transfer.peer, transfer.size) for transfer in step.sends]
    for _, transfers in sorted(steps.items()):
        if transfers:
            columns = np.array(transfers, dtype=np.int64)
            yield Phase(columns[:, 0], columns[:, 1], columns[:, 2])


def _seen_from(collective: Collective, member: int) -> Collective:
    return Collective(collective.kind, collective.members, member, collective.size_bytes, collective.root)


class _Cut:
    """An array cut into blocks as `schedule.block` cuts it, for arrays of indices."""

    def __init__(self, size_bytes: int, parts: int) -> None:
        self.parts = parts
        self._base, self._longer = divmod(size_bytes, parts)

    def size(self, index: IntArray) -> IntArray:
        """Bytes of blocks; indices count round the circle."""
        return self._base + (index % self.parts < self._longer).astype(np.int64)

    def span(self, first: IntArray, count: int | IntArray) -> IntArray:
        """Bytes of `count` blocks from `first` on, not past the end."""
        return self._offset(first + count) - self._offset(first)

    def arc(self, first: IntArray, count: int) -> IntArray:
        """The same round the circle."""
        end = first + count
        within = np.minimum(end, self.parts)
        return self.span(first, within - first) + self._offset(end - within)

    def _offset(self, index: IntArray) -> IntArray:
        return index * self._base + np.minimum(index, self._longer)


def _same(senders: IntArray, size_bytes: int) -> IntArray:
    return np.full(len(senders), size_bytes, dtype=np.int64)


def _up(collective: Collective, senders: IntArray, distance: int = 1) -> IntArray:
    return (senders + distance) % collective.members


# Rings: one phase, since every step goes to the same neighbour.


def _ring_all_reduce(collective: Collective, senders: IntArray) -> Phases:
    n = collective.members
    yield Phase(senders, _up(collective, senders), _round_trip(collective.size_bytes, n, senders), 2 * (n - 1))


def _round_trip(size_bytes: int, parts: int, position: IntArray) -> IntArray:
    cut = _Cut(size_bytes, parts)
    return 2 * size_bytes - cut.size(position) - cut.size(position + 1)


def _bidirectional_ring(collective: Collective, senders: IntArray) -> Phases:
    n = collective.members
    forth, back = (block(collective.size_bytes, 2, half)[1] for half in (0, 1))
    sizes = [_round_trip(forth, n, senders), _round_trip(back, n, -senders % n)]
    receivers = [_up(collective, senders), _up(collective, senders, -1)]
    yield Phase(np.tile(senders, 2), np.concatenate(receivers), np.concatenate(sizes), 2 * (n - 1))


def _ring_all_gather(collective: Collective, senders: IntArray) -> Phases:
    n = collective.members
    yield Phase(senders, _up(collective, senders), _same(senders, (n - 1) * collective.size_bytes), n - 1)


def _ring_reduce_scatter(collective: Collective, senders: IntArray) -> Phases:
    n = collective.members
    sizes = collective.size_bytes - _Cut(collective.size_bytes, n).size(senders)
    yield Phase(senders, _up(collective, senders), sizes, n - 1)


# Everybody to everybody.


def _everybody(collective: Collective, senders: IntArray) -> tuple[IntArray, IntArray]:
    n = collective.members
    receivers = (senders[:, None] + np.arange(1, n, dtype=np.int64)) % n
    return np.repeat(senders, n - 1), receivers.ravel()


def _direct_all_reduce(collective: Collective, senders: IntArray) -> Phases:
    cut = _Cut(collective.size_bytes, collective.members)
    source, target = _everybody(collective, senders)
    yield Phase(source, target, cut.size(source) + cut.size(target), 2)


def _direct_all_gather(collective: Collective, senders: IntArray) -> Phases:
    source, target = _everybody(collective, senders)
    yield Phase(source, target, _same(source, collective.size_bytes))


def _block_to_each(collective: Collective, senders: IntArray) -> Phases:
    source, target = _everybody(collective, senders)
    yield Phase(source, target, _Cut(collective.size_bytes, collective.members).size(target))


def _pairwise(collective: Collective, senders: IntArray) -> Phases:
    cut = _Cut(collective.size_bytes, collective.members)
    for distance in range(1, collective.members):
        target = _up(collective, senders, distance)
        yield Phase(senders, target, cut.size(target))


# Halving and doubling.


def _halving(cut: _Cut, position: IntArray, distances: list[int]) -> list[tuple[int, IntArray, IntArray]]:
    """Per step (distance, bytes of the half given, bytes of the half kept)."""
    first, count, found = np.zeros_like(position), cut.parts, []
    for distance in distances:
        count //= 2
        upper = (position & distance) > 0
        kept, given = first + np.where(upper, count, 0), first + np.where(upper, 0, count)
        found.append((distance, cut.span(given, count), cut.span(kept, count)))
        first = kept
    return found


def _halving_doubling_all_reduce(collective: Collective, senders: IntArray) -> Phases:
    def exchange(places: int, position: IntArray) -> Iterator[tuple[int, IntArray]]:
        steps = _halving(_Cut(collective.size_bytes, places), position, powers_below(places))
        yield from ((distance, given) for distance, given, _ in steps)
        yield from ((distance, held) for distance, _, held in reversed(steps))

    return _folded(collective, senders, exchange)


def _recursive_doubling(collective: Collective, senders: IntArray) -> Phases:
    def exchange(places: int, position: IntArray) -> Iterator[tuple[int, IntArray]]:
        yield from ((distance, _same(position, collective.size_bytes)) for distance in powers_below(places))

    return _folded(collective, senders, exchange)


def _folded(
    collective: Collective, senders: IntArray, exchange: Callable[[int, IntArray], Iterator[tuple[int, IntArray]]]
) -> Phases:
    """Members beyond a power of two hand over their array and get the result; the others exchange by distance."""
    n, size = collective.members, collective.size_bytes
    places = 1 << (n.bit_length() - 1)
    extra = n - places
    folded = senders[(senders < 2 * extra) & (senders % 2 == 0)]
    kept = senders[(senders >= 2 * extra) | (senders % 2 == 1)]
    position = np.where(kept >= 2 * extra, kept - extra, kept // 2)
    yield Phase(folded, folded + 1, _same(folded, size))
    for distance, sizes in exchange(places, position):
        yield Phase(kept, _unfolded(position ^ distance, extra), sizes)
    helping = kept[position < extra]
    yield Phase(helping, helping - 1, _same(helping, size))


def _unfolded(position: IntArray, extra: int) -> IntArray:
    """Member number at a position of the power of two."""
    return np.where(position < extra, 2 * position + 1, position + extra)


def _halving_doubling_all_gather(collective: Collective, senders: IntArray) -> Phases:
    n, size = collective.members, collective.size_bytes
    if n & (n - 1):
        for held in powers_below(n):
            yield Phase(senders, _up(collective, senders, -held), _same(senders, min(held, n - held) * size))
        return
    for distance, _, held_bytes in reversed(_halving(_Cut(n * size, n), senders, powers_below(n)[::-1])):
        yield Phase(senders, senders ^ distance, held_bytes)


def _halving_doubling_reduce_scatter(collective: Collective, senders: IntArray) -> Phases:
    n = collective.members
    cut = _Cut(collective.size_bytes, n)
    if n & (n - 1):
        for held in reversed(powers_below(n)):
            target = _up(collective, senders, held)
            yield Phase(senders, target, cut.arc(target, min(held, n - held)))
        return
    for distance, given, _ in _halving(cut, senders, powers_below(n)[::-1]):
        yield Phase(senders, senders ^ distance, given)


def _dissemination(collective: Collective, senders: IntArray) -> Phases:
    for distance in powers_below(collective.members):
        yield Phase(senders, _up(collective, senders, distance), _same(senders, BARRIER_BYTES))


# Trees through which chunks flow: a phase for the way up and one for the way down.


def _double_binary_tree(collective: Collective, senders: IntArray) -> Phases:
    halves = [block(collective.size_bytes, 2, half)[1] for half in (0, 1)]
    places = [two_trees(collective.members, member) for member in senders.tolist()]
    steps = in_chunks(halves[0]).parts if halves[0] else 1
    for way in (_to_parent, _to_children):
        edges = [
            (member, peer, halves[tree])
            for member, both in zip(senders.tolist(), places, strict=True)
            for tree in (0, 1)
            for peer in way(both[tree])
        ]
        yield from _one_phase(edges, steps)


def _chain_down(collective: Collective, senders: IntArray) -> Phases:
    yield from _chain(collective, senders, _to_children)


def _chain_up(collective: Collective, senders: IntArray) -> Phases:
    yield from _chain(collective, senders, _to_parent)


def _chain(collective: Collective, senders: IntArray, way: Callable[[Place], list[int]]) -> Phases:
    n, size = collective.members, collective.size_bytes
    edges = [(m, peer, size) for m in senders.tolist() for peer in way(chain(n, m, collective.root))]
    yield from _one_phase(edges, in_chunks(size).parts)


def _one_phase(edges: list[tuple[int, int, int]], steps: int) -> Phases:
    if edges:
        columns = np.array(edges, dtype=np.int64)
        yield Phase(columns[:, 0], columns[:, 1], columns[:, 2], steps)


def _to_parent(place: Place) -> list[int]:
    return [] if place.parent is None else [place.parent]


def _to_children(place: Place) -> list[int]:
    return list(place.children)


_CLOSED: Mapping[tuple[CommKind, str], ClosedForm] = {
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
}
