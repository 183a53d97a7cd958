"""Rings in several channels, each with a part of the array and an order of its own.

Every ring goes through all members of a node before it leaves it. In ring c the members of even nodes follow each other
by column (see GroupLayout) beginning with column c, and those of odd nodes the other way round: a ring enters a node
at the rail at which it left the one before, and each ring uses other rails than the others. With as many channels as
columns, all rails carry the same.

Source: NCCL's channels (Hu et al., "Demystifying NCCL", arXiv:2507.04786, 2025), and its rings that alternate between
rails (NCCL_CROSS_NIC in its documentation).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from emulator.planner.collectives.blocks import Blocks, BlockSlices, array_of, shards_of
from emulator.planner.collectives.ring import ring_pass
from emulator.planner.group_layout import GroupLayout, apart
from emulator.planner.schedule import Collective, Lane, Step, block
from emulator.trace.meaning.model import CommKind


@dataclass(frozen=True, slots=True)
class Ring:
    """The ring of one channel."""

    layout: GroupLayout
    channel: int

    def position(self, member: int) -> int:
        """Position of a member in the ring."""
        node = self.layout.node_of[member]
        members = self.layout.nodes[node]
        return self.layout.starts[node] + self._turned(node, members.index(member), len(members))

    def member(self, position: int) -> int:
        """The member at a position; positions wrap around."""
        position %= self.layout.starts[-1]
        node = self.layout.node_at(position)
        members = self.layout.nodes[node]
        place = position - self.layout.starts[node]
        shift = self.channel % len(members)
        return members[(shift + (len(members) - 1 - place if node % 2 else place)) % len(members)]

    def _turned(self, node: int, place: int, count: int) -> int:
        place = (place - self.channel) % count
        return count - 1 - place if node % 2 else place


def all_reduce(collective: Collective, /, *, channels: int) -> Sequence[Lane]:
    """2(n - 1) steps in each channel; 2s(n - 1)/n bytes each way."""

    def lane(channel: int) -> Iterator[Step]:
        ring, blocks = _ring(collective, channel), _part(collective, channels, channel)
        at = ring.position(collective.member)
        up, down = ring.member(at + 1), ring.member(at - 1)
        yield from ring_pass(blocks, first=(at or blocks.parts) - 1, to=up, source=down, reduces=True)
        yield from ring_pass(blocks, first=at, to=up, source=down, reduces=False)

    return _lanes(lane, channels)


def all_gather(collective: Collective, /, *, channels: int) -> Sequence[Lane]:
    """n - 1 steps in each channel; (n - 1) s bytes each way."""

    def lane(channel: int) -> Iterator[Step]:
        ring, at = _placed(collective, channel)
        blocks = _InOrder(shards_of(collective).cut(channels, channel), ring)
        yield from ring_pass(blocks, first=at, to=ring.member(at + 1), source=ring.member(at - 1), reduces=False)

    return _lanes(lane, channels)


def reduce_scatter(collective: Collective, /, *, channels: int) -> Sequence[Lane]:
    """n - 1 steps in each channel; member i sends s - b(i) bytes."""

    def lane(channel: int) -> Iterator[Step]:
        ring, at = _placed(collective, channel)
        blocks = _InOrder(array_of(collective).cut(channels, channel), ring)
        first = (at or blocks.parts) - 1
        yield from ring_pass(blocks, first=first, to=ring.member(at + 1), source=ring.member(at - 1), reduces=True)

    return _lanes(lane, channels)


def sent_in(collective: Collective, member: int, ring: Ring, channels: int) -> int:
    """Bytes that a member sends to the next one in one ring of the collective."""
    n = collective.members
    if collective.kind is CommKind.ALL_REDUCE:
        blocks, at = _part(collective, channels, ring.channel), ring.position(member)
        return 2 * blocks.span(0, n)[1] - blocks.size(at) - blocks.size(at + 1)
    if collective.kind is CommKind.ALL_GATHER:
        return (n - 1) * block(collective.size_bytes, channels, ring.channel)[1]
    slices = array_of(collective).cut(channels, ring.channel)
    return slices.bytes_of(range(n)) - slices.locate(member)[1]


@dataclass(frozen=True, slots=True)
class _InOrder:
    """Blocks of members, counted by the members' positions in a ring."""

    blocks: BlockSlices
    ring: Ring

    @property
    def parts(self) -> int:
        return self.blocks.parts

    def locate(self, index: int) -> tuple[int, int]:
        return self.blocks.locate(self.ring.member(index))


def _lanes(lane: Callable[[int], Lane], channels: int) -> Sequence[Lane]:
    return [lane(channel) for channel in range(channels)]


def _ring(collective: Collective, channel: int) -> Ring:
    return Ring(collective.layout or apart(collective.members), channel)


def _placed(collective: Collective, channel: int) -> tuple[Ring, int]:
    ring = _ring(collective, channel)
    return ring, ring.position(collective.member)


def _part(collective: Collective, channels: int, channel: int) -> Blocks:
    """The part of the array that goes through a channel."""
    start, size = block(collective.size_bytes, channels, channel)
    return Blocks(size, collective.members, start=start)
