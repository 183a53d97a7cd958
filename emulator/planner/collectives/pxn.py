"""All-to-all with PXN: data for a rank beyond the node leaves it at the rail of that rank.

Each member first gives every other member of its node its blocks for that member's column (see GroupLayout), then the
owner of a column sends each remote member in it the blocks of the whole node in one transfer. Between two nodes there
is one flow per rail and direction instead of one per pair of members, and none of them changes rails.

Sources: Jeaugey et al., "Doubling all2all performance with NVIDIA Collective Communication Library 2.12" (2022); the
order of nodes is that of pairwise exchange, Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emulator.errors import PlanError
from emulator.planner.collectives.blocks import Blocks, Scattered, scattered
from emulator.planner.group_layout import GroupLayout, apart
from emulator.planner.schedule import Collective, Lane, Step, Transfer


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
