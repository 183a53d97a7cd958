"""All-to-all: member i has a block for each member j. n members, s bytes each; the own block is not sent.

Even: member i sends s - b(i) bytes and receives (n - 1) b(i), with b(i) the size of block i. Uneven: the sums of its
send and receive splits without its own. In both algorithms, every pair exchanges one transfer each way.

All-to-all with PXN: data for a rank beyond the node leaves it at the rail of that rank.

Each member first gives every other member of its node its blocks for that member's column (see GroupLayout), then the
owner of a column sends each remote member in it the blocks of the whole node in one transfer. Between two nodes there
is one flow per rail and direction instead of one per pair of members, and none of them changes rails.

Sources: Jeaugey et al., "Doubling all2all performance with NVIDIA Collective Communication Library 2.12" (2022); the
order of nodes is that of pairwise exchange, Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias

from emulator.errors import PlanError
from emulator.planner.collectives.blocks import Blocks, Scattered, scattered, transfer
from emulator.planner.group_layout import GroupLayout, apart
from emulator.planner.schedule import Collective, Lane, Step, Transfer, block

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


def pxn(collective: Collective, /) -> Sequence[Lane]:
    """One step on the node, then one for each of the N - 1 other nodes.

    With k members on each of N nodes, a member sends s(k - 1)/k bytes on its node and s(N - 1)/N beyond.

    Raises:
        PlanError: the all-to-all is uneven: a member does not know how much others send through it.
    """
    if collective.send_splits is not None:
        raise PlanError("all_to_all=pxn is for even all-to-all; for uneven ones use pairwise or parallel")
    return [_lane(collective, collective.layout or apart(collective.members))]


def given_on_node(collective: Collective) -> list[tuple[int, int]]:
    """(member of the node, bytes given to it) by one member."""
    layout = collective.layout or apart(collective.members)
    blocks, member = _row(collective), collective.member
    others = [peer for peer in layout.peers_of(member) if peer != member]
    return [(peer, blocks.bytes_of(layout.in_columns(layout.owned(peer)))) for peer in others]


def _lane(collective: Collective, layout: GroupLayout) -> Iterator[Step]:
    member, size = collective.member, collective.size_bytes
    peers, row = layout.peers_of(member), _row(collective)
    at = peers.index(member)
    others = [*peers[at + 1 :], *peers[:at]]
    if others:
        sends = [one for peer in others for one in scattered(peer, row, layout.in_columns(layout.owned(peer)))]
        through = layout.in_columns(layout.owned(member))
        rows = [(peer, Blocks(size, collective.members, start=peer * size)) for peer in reversed(others)]
        yield Step(sends, [one for peer, blocks in rows for one in scattered(peer, blocks, through)])
    nodes, node = len(layout.nodes), layout.node_of[member]
    for distance in range(1, nodes):
        targets = layout.nodes[(node + distance) % nodes]
        owners = layout.owners[node]
        sends = [one for to in targets if owners[layout.column_of[to]] == member for one in _whole(row, to, peers)]
        source = (node - distance) % nodes
        owner = layout.owners[source][layout.column_of[member]]
        yield Step(sends, _whole(row, member, layout.nodes[source], owner))


def _row(collective: Collective) -> Blocks:
    return Blocks(collective.size_bytes, collective.members, start=collective.member * collective.size_bytes)


def _whole(row: Blocks, to: int, senders: Sequence[int], peer: int | None = None) -> list[Transfer]:
    """The blocks of all senders for one member, in one transfer."""
    size = row.size(to)
    if not size:
        return []
    total = row.span(0, row.parts)[1]
    column = Blocks(total, row.parts).locate(to)[0]
    pieces = Scattered(lambda sender: (sender * total + column, size), senders)
    return [Transfer(to if peer is None else peer, pieces, len(senders) * size)]
