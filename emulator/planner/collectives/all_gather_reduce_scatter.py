"""All-gather, and reduce-scatter, its mirror image, for n members.

All-gather of shards of s bytes: with every algorithm, a member sends and receives (n - 1) s bytes. Reduce-scatter of an
array of s bytes, block i with b(i) bytes: with every algorithm, member i sends s - b(i) bytes.

PAT, parallel aggregated trees: all-gather and reduce-scatter in a logarithmic number of steps, for any n.

Every member is the root of a binomial tree; the trees are those of Bruck's algorithm shifted by one member each, walked
from the longest distance to the shortest. Few bytes then go far and most go to the neighbour, where Bruck's algorithm
sends most bytes farthest. What a member sends to a peer for all trees in one step is one transfer.

Each step aggregates everything, as NCCL does while that fits its buffers; NCCL aggregates less of larger arrays.

Source: Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale", arXiv:2506.20252 (2025).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emulator.planner.collectives.blocks import Blocks, Scattered, array_of, shards_of
from emulator.planner.collectives.patterns import (
    circulant_gather,
    circulant_scatter,
    direct_gather,
    direct_scatter,
    doubling,
    halving,
    in_slices,
    powers_below,
    ring_pass,
)
from emulator.planner.schedule import Collective, Lane, Step, Transfer


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


def all_gather_trees(collective: Collective, /) -> Sequence[Lane]:
    """ceil(log2(n)) steps, the farthest first; (n - 1) s bytes each way."""
    return [_gather(shards_of(collective), collective.member)]


def reduce_scatter_trees(collective: Collective, /) -> Sequence[Lane]:
    """`all_gather_trees` in reverse, with additions: ceil(log2(n)) steps, the nearest first; s - b(i) bytes sent."""
    return [_scatter(array_of(collective), collective.member)]


def carried(blocks: Blocks, distance: int) -> range:
    """How far behind a member those are whose blocks it passes on over this distance."""
    return range(0, blocks.parts - distance, 2 * distance)


def aggregate_bytes(blocks: Blocks, last: int, behind: range) -> int:
    """Bytes of the blocks of members that are so far behind `last`, wrapping around; O(1)."""
    longer = [range(last - blocks.longer + 1, last + 1), range(last + blocks.parts - blocks.longer + 1, blocks.parts)]
    return len(behind) * blocks.size(-1) + sum(_among(behind, where) for where in longer)


def _among(multiples: range, where: range) -> int:
    """How many of `multiples`, which begin at 0, are in `where`."""
    first, end = max(where.start, 0), min(where.stop, multiples.stop)
    return max(0, -(-end // multiples.step) - -(-first // multiples.step))


def _gather(blocks: Blocks, member: int) -> Iterator[Step]:
    for distance in reversed(powers_below(blocks.parts)):
        up, down = _neighbours(blocks, member, distance)
        behind = carried(blocks, distance)
        yield Step(_aggregate(up, blocks, member, behind), _aggregate(down, blocks, down, behind))


def _scatter(blocks: Blocks, member: int) -> Iterator[Step]:
    for distance in powers_below(blocks.parts):
        up, down = _neighbours(blocks, member, distance)
        behind = carried(blocks, distance)
        yield Step(_aggregate(down, blocks, down, behind), _aggregate(up, blocks, member, behind), True)


def _neighbours(blocks: Blocks, member: int, distance: int) -> tuple[int, int]:
    return (member + distance) % blocks.parts, (member - distance) % blocks.parts


def _aggregate(peer: int, blocks: Blocks, last: int, behind: range) -> tuple[Transfer, ...]:
    """One transfer of the blocks of members that are so far behind `last`."""
    size = aggregate_bytes(blocks, last, behind)
    pieces = Scattered(lambda each: blocks.locate((last - each) % blocks.parts), behind)
    return (Transfer(peer, pieces, size),) if size else ()
