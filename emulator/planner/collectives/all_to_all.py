"""All-to-all: member i has a block for each member j. n members, s bytes each; the own block is not sent.

Even: member i sends s - b(i) bytes and receives (n - 1) b(i), with b(i) the size of block i. Uneven: the sums of its
send and receive splits without its own. In both algorithms, every pair exchanges one transfer each way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias

from emulator.planner.collectives.blocks import Blocks, transfer
from emulator.planner.schedule import Collective, Lane, Step, block

Locate: TypeAlias = Callable[[int], tuple[int, int]]
"""Member → (offset, size) of its block."""


def pairwise(collective: Collective, /) -> Sequence[Lane]:
    """n - 1 steps; in step k member i sends to i + k and receives from i - k.

    Source: Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005).
    """
    return [_pairwise(collective)]


def parallel(collective: Collective, /) -> Sequence[Lane]:
    """All transfers at once: 1 step of n - 1 transfers each way, in the order of `pairwise`.

    Source: Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005), for messages of medium size.
    """
    return [_parallel(collective)]


def _pairwise(collective: Collective) -> Iterator[Step]:
    n, member = collective.members, collective.member
    outgoing, incoming = _splits(collective)
    for distance in range(1, n):
        to, source = (member + distance) % n, (member - distance) % n
        yield Step(transfer(to, outgoing(to)), transfer(source, incoming(source)))


def _parallel(collective: Collective) -> Iterator[Step]:
    n, member = collective.members, collective.member
    outgoing, incoming = _splits(collective)
    ahead = [*range(member + 1, n), *range(member)]
    sends = [send for to in ahead for send in transfer(to, outgoing(to))]
    yield Step(sends, [recv for source in reversed(ahead) for recv in transfer(source, incoming(source))])


def _splits(collective: Collective) -> tuple[Locate, Locate]:
    if collective.send_splits is not None and collective.recv_splits is not None:
        return _uneven(collective.send_splits, collective.recv_splits)
    return _even(collective)


def _even(collective: Collective) -> tuple[Locate, Locate]:
    size, member = collective.size_bytes, collective.member
    column, column_size = block(size, collective.members, member)
    row = Blocks(size, collective.members, start=member * size)
    return row.locate, lambda source: (source * size + column, column_size)


def _uneven(send_splits: Sequence[int], recv_splits: Sequence[int]) -> tuple[Locate, Locate]:
    starts = list(accumulate(send_splits, initial=0))
    return lambda to: (starts[to], send_splits[to]), lambda source: (-1, recv_splits[source])
