"""PAT, parallel aggregated trees: all-gather and reduce-scatter in a logarithmic number of steps, for any n.

Every member is the root of a binomial tree; the trees are those of Bruck's algorithm shifted by one member each, walked
from the longest distance to the shortest. Few bytes then go far and most go to the neighbour, where Bruck's algorithm
sends most bytes farthest. What a member sends to a peer for all trees in one step is one transfer.

Each step aggregates everything, as NCCL does while that fits its buffers; NCCL aggregates less of larger arrays.

Source: Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale", arXiv:2506.20252 (2025).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emulator.planner.collectives.blocks import Blocks, Scattered, array_of, shards_of
from emulator.planner.collectives.halving_doubling import powers_below
from emulator.planner.schedule import Collective, Lane, Step, Transfer


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
