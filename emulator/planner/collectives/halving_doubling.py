"""Recursive halving and doubling for 2^k members, and Bruck's circulant form for any number of members.

In each step of halving, partners at one distance split the blocks that they hold. `distances` sets the order; doubling
takes it in reverse.

Sources: Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005); for the circulant form Bruck, Ho, Kipnis, Upfal, Weathersby,
IEEE TPDS 8 (1997).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from emulator.planner.collectives.blocks import Blocks, transfer, transfers
from emulator.planner.schedule import Lane, Step


def powers_below(members: int) -> list[int]:
    """The powers of two below `members`: 1, 2, 4, …; ceil(log2(members)) of them."""
    return [1 << k for k in range((members - 1).bit_length())]


def halving(blocks: Blocks, *, position: int, distances: Sequence[int], peer_of: Callable[[int], int]) -> Lane:
    """Recursive vector halving: a reduce-scatter over 2^k positions.

    Args:
        blocks: the array, with one block per position.
        position: position of the member.
        distances: a permutation of 1, 2, 4, … parts / 2.
        peer_of: returns the member number at a position.
    """
    for distance, kept, sent_first in _halves(blocks.parts, position, distances):
        peer, count = peer_of(position ^ distance), kept[1]
        sends, recvs = transfer(peer, blocks.span(sent_first, count)), transfer(peer, blocks.span(kept[0], count))
        yield Step(sends, recvs, True)


def doubling(blocks: Blocks, *, position: int, distances: Sequence[int], peer_of: Callable[[int], int]) -> Lane:
    """Recursive vector doubling: the all-gather that reverses `halving` with the same arguments."""
    for distance, kept, sent_first in reversed(list(_halves(blocks.parts, position, distances))):
        peer, count = peer_of(position ^ distance), kept[1]
        yield Step(transfer(peer, blocks.span(kept[0], count)), transfer(peer, blocks.span(sent_first, count)))


def _halves(parts: int, position: int, distances: Sequence[int]) -> Iterator[tuple[int, tuple[int, int], int]]:
    """Per step: (distance, (first, count) of the half kept, first block of the half sent)."""
    first, count = 0, parts
    for distance in distances:
        count //= 2
        lower, upper = first, first + count
        first, sent_first = (upper, lower) if position & distance else (lower, upper)
        yield distance, (first, count), sent_first


def circulant_gather(blocks: Blocks, *, member: int) -> Lane:
    """All-gather of one block per member in ceil(log2(n)) steps; in each but the last, the blocks held double."""
    n = blocks.parts
    for held in powers_below(n):
        count, source = min(held, n - held), (member + held) % n
        sends = transfers((member - held) % n, blocks.arc(member, count))
        yield Step(sends, transfers(source, blocks.arc(source, count)))


def circulant_scatter(blocks: Blocks, *, member: int) -> Lane:
    """Reduce-scatter in ceil(log2(n)) steps: `circulant_gather` in reverse, with additions in place of copies."""
    n = blocks.parts
    for held in reversed(powers_below(n)):
        count, to = min(held, n - held), (member + held) % n
        sends = transfers(to, blocks.arc(to, count))
        yield Step(sends, transfers((member - held) % n, blocks.arc(member, count)), True)
