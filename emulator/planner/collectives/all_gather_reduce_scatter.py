"""All-gather and its mirror image reduce-scatter. n members.

All-gather: shards of s bytes; whatever the algorithm, every member sends and receives (n - 1) s bytes. Reduce-scatter:
an array of s bytes, block i of n has b(i) bytes; whatever the algorithm, member i sends s - b(i) bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emulator.planner.collectives.blocks import Blocks
from emulator.planner.collectives.halving_doubling import (
    circulant_gather,
    circulant_scatter,
    circulant_scatter_bytes,
    doubling,
    halving,
    halving_bytes,
    powers_below,
)
from emulator.planner.collectives.ring import in_slices, ring_pass, ring_pass_bytes
from emulator.planner.schedule import Collective, Lane, Step, Transfer


def all_gather_ring(collective: Collective, /) -> Sequence[Lane]:
    """Shards go round the ring: n - 1 steps; (n - 1) s bytes sent and received.

    Source: Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005).
    """
    n, member = collective.members, collective.member
    up, down = (member + 1) % n, (member - 1) % n
    slices = in_slices(_shards(collective))
    return [ring_pass(part, first=member, to=up, source=down, reduces=False) for part in slices]


def all_gather_direct(collective: Collective, /) -> Sequence[Lane]:
    """The own shard to everybody at once: 1 step of n - 1 transfers; (n - 1) s bytes sent and received.

    Source: Chan, Heimlich, Purkayastha, van de Geijn, CCPE 19 (2007), for the lower bound it meets.
    """
    return [_all_to_each(_shards(collective), collective.member, gathers=True)]


def all_gather_halving_doubling(collective: Collective, /) -> Sequence[Lane]:
    """Recursive doubling where n is a power of two, else Bruck's: ceil(log2(n)) steps; (n - 1) s bytes each way.

    Source: Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005); Bruck et al., IEEE TPDS 8 (1997).
    """
    blocks, member = _shards(collective), collective.member
    if not _is_power_of_two(blocks.parts):
        return [circulant_gather(blocks, member=member)]
    return [doubling(blocks, position=member, distances=_falling(blocks.parts), peer_of=int)]


def all_gather_bytes(collective: Collective) -> tuple[int, int]:
    """(sent, received) of every all-gather here."""
    each_way = (collective.members - 1) * collective.size_bytes
    return each_way, each_way


def reduce_scatter_ring(collective: Collective, /) -> Sequence[Lane]:
    """Partial sums go round the ring: n - 1 steps; member i sends s - b(i) bytes and receives s - b(i - 1).

    Source: Patarasuk & Yuan, JPDC 69 (2009), first half.
    """
    n, member = collective.members, collective.member
    up, down = (member + 1) % n, (member - 1) % n
    slices = in_slices(_array(collective))
    return [ring_pass(part, first=down, to=up, source=down, reduces=True) for part in slices]


def reduce_scatter_ring_bytes(collective: Collective) -> tuple[int, int]:
    """(sent, received) of `reduce_scatter_ring`."""
    return ring_pass_bytes(_array(collective), first=collective.member - 1)


def reduce_scatter_direct(collective: Collective, /) -> Sequence[Lane]:
    """Block j straight to member j: 1 step of n - 1 transfers; member i sends s - b(i), receives (n - 1) b(i) bytes.

    Source: Chan, Heimlich, Purkayastha, van de Geijn, CCPE 19 (2007), for the lower bound it meets.
    """
    return [_all_to_each(_array(collective), collective.member, gathers=False)]


def reduce_scatter_direct_bytes(collective: Collective) -> tuple[int, int]:
    """(sent, received) of `reduce_scatter_direct`."""
    own = _array(collective).size(collective.member)
    return collective.size_bytes - own, (collective.members - 1) * own


def reduce_scatter_halving_doubling(collective: Collective, /) -> Sequence[Lane]:
    """Recursive halving where n is a power of two, else Bruck's all-gather run backwards: ceil(log2(n)) steps.

    Member i sends s - b(i) bytes and receives as many where n divides s: every block but its own leaves it once.

    Source: Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005); Bruck et al., IEEE TPDS 8 (1997), reversed in time.
    """
    blocks, member = _array(collective), collective.member
    if not _is_power_of_two(blocks.parts):
        return [circulant_scatter(blocks, member=member)]
    return [halving(blocks, position=member, distances=_falling(blocks.parts), peer_of=int)]


def reduce_scatter_halving_doubling_bytes(collective: Collective) -> tuple[int, int]:
    """(sent, received) of `reduce_scatter_halving_doubling`, O(log n)."""
    blocks, member = _array(collective), collective.member
    if not _is_power_of_two(blocks.parts):
        return circulant_scatter_bytes(blocks, member=member)
    return halving_bytes(blocks, position=member, distances=_falling(blocks.parts))


def _shards(collective: Collective) -> Blocks:
    return Blocks(collective.members * collective.size_bytes, collective.members)


def _array(collective: Collective) -> Blocks:
    return Blocks(collective.size_bytes, collective.members)


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def _falling(members: int) -> list[int]:
    """Distances n/2 … 1: halving then leaves block i with member i."""
    return powers_below(members)[::-1]


def _all_to_each(blocks: Blocks, member: int, *, gathers: bool) -> Iterator[Step]:
    """One step: member i hands its block to all (`gathers`), or collects it from all."""
    others = [*range(member + 1, blocks.parts), *range(member)]
    offset, size = blocks.locate(member)
    own = [Transfer(peer, offset, size) for peer in others] if size else []
    theirs = [Transfer(peer, start, length) for peer in others for start, length in (blocks.locate(peer),) if length]
    yield Step(own, theirs) if gathers else Step(theirs, own, True)
