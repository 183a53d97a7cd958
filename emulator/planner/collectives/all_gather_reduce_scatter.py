"""All-gather, and reduce-scatter, its mirror image, for n members.

All-gather of shards of s bytes: with every algorithm, a member sends and receives (n - 1) s bytes. Reduce-scatter of an
array of s bytes, block i with b(i) bytes: with every algorithm, member i sends s - b(i) bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from emulator.planner.collectives.blocks import array_of, shards_of
from emulator.planner.collectives.direct import direct_gather, direct_scatter
from emulator.planner.collectives.halving_doubling import (
    circulant_gather,
    circulant_scatter,
    doubling,
    halving,
    powers_below,
)
from emulator.planner.collectives.ring import in_slices, ring_pass
from emulator.planner.schedule import Collective, Lane


def all_gather_ring(collective: Collective, /) -> Sequence[Lane]:
    """Shards travel around the ring: n - 1 steps; (n - 1) s bytes sent and received.

    Source: Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005).
    """
    n, member = collective.members, collective.member
    up, down = (member + 1) % n, (member - 1) % n
    slices = in_slices(shards_of(collective))
    return [ring_pass(part, first=member, to=up, source=down, reduces=False) for part in slices]


def all_gather_direct(collective: Collective, /) -> Sequence[Lane]:
    """Every member sends its shard to all others at once: 1 step of n - 1 transfers; (n - 1) s bytes each way.

    Source: Chan, Heimlich, Purkayastha, van de Geijn, CCPE 19 (2007), for the lower bound it meets.
    """
    return [direct_gather(shards_of(collective), member=collective.member)]


def all_gather_halving_doubling(collective: Collective, /) -> Sequence[Lane]:
    """Recursive doubling if n is a power of two, else Bruck's algorithm: ceil(log2(n)) steps; (n - 1) s bytes each way.

    Source: Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005); Bruck et al., IEEE TPDS 8 (1997).
    """
    blocks, member = shards_of(collective), collective.member
    if not _is_power_of_two(blocks.parts):
        return [circulant_gather(blocks, member=member)]
    return [doubling(blocks, position=member, distances=_falling(blocks.parts), peer_of=int)]


def reduce_scatter_ring(collective: Collective, /) -> Sequence[Lane]:
    """Partial sums travel around the ring: n - 1 steps; member i sends s - b(i) bytes and receives s - b(i - 1).

    Source: Patarasuk & Yuan, JPDC 69 (2009), first half.
    """
    n, member = collective.members, collective.member
    up, down = (member + 1) % n, (member - 1) % n
    slices = in_slices(array_of(collective))
    return [ring_pass(part, first=down, to=up, source=down, reduces=True) for part in slices]


def reduce_scatter_direct(collective: Collective, /) -> Sequence[Lane]:
    """Block j is sent directly to member j: 1 step; member i sends s - b(i) and receives (n - 1) b(i) bytes.

    Source: Chan, Heimlich, Purkayastha, van de Geijn, CCPE 19 (2007), for the lower bound it meets.
    """
    return [direct_scatter(array_of(collective), member=collective.member)]


def reduce_scatter_halving_doubling(collective: Collective, /) -> Sequence[Lane]:
    """Recursive halving if n is a power of two, else Bruck's all-gather in reverse: ceil(log2(n)) steps.

    Member i sends s - b(i) bytes, every block but its own once, and receives as many if n divides s.

    Source: Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005); Bruck et al., IEEE TPDS 8 (1997), in reverse.
    """
    blocks, member = array_of(collective), collective.member
    if not _is_power_of_two(blocks.parts):
        return [circulant_scatter(blocks, member=member)]
    return [halving(blocks, position=member, distances=_falling(blocks.parts), peer_of=int)]


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def _falling(members: int) -> list[int]:
    """Distances n/2 … 1, with which halving leaves block i with member i."""
    return powers_below(members)[::-1]
