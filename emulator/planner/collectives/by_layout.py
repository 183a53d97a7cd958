"""Algorithms that know the layout: rings in several channels, and hierarchical ones.

Each channel has a part of the array and an order of its own. Every ring goes through all members of a node before it
leaves it. In ring c the members of even nodes follow each other by column (see GroupLayout) beginning with column c,
and those of odd nodes the other way round: a ring enters a node at the rail at which it left the one before, and each
ring uses other rails than the others. With as many channels as columns, all rails carry the same.

Source: NCCL's channels (Hu et al., "Demystifying NCCL", arXiv:2507.04786, 2025), and its rings that alternate between
rails (NCCL_CROSS_NIC in its documentation).

With hierarchical algorithms, what leaves a node leaves it once, spread over all its rails. An array is a grid of
blocks, one for each node and column (see GroupLayout). On a node, the owner of a column stands for all members of the
node in that column: reduce-scatter leaves it with the node's sum of the column, and all-gather hands it out. Between
nodes, the blocks of a column travel around a ring of its owners, at the column's rail.

Between nodes, a member of one of N even nodes with k members each moves 1/k of what its node moves: for an all-reduce
of s bytes 2s(N - 1)/(N k), against 2s(N k - 1)/(N k) of the one member at which a ring leaves the node. Nodes with
fewer members than columns are served too: their members own several columns.

Source of hierarchical ones: Cho, Finkler, Serrano, Kung, Hunter, IBM J. Res. Dev. 63 (2019), "BlueConnect", for two
levels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from emulator.planner.collectives.blocks import Blocks, BlockSlices, array_of, scattered, shards_of, transfer
from emulator.planner.collectives.patterns import in_slices, ring_pass
from emulator.planner.group_layout import GroupLayout, apart
from emulator.planner.schedule import Collective, Lane, Step, Transfer, block
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


def all_reduce_in_channels(collective: Collective, /, *, channels: int) -> Sequence[Lane]:
    """2(n - 1) steps in each channel; 2s(n - 1)/n bytes each way."""

    def lane(channel: int) -> Iterator[Step]:
        ring, blocks = _ring(collective, channel), _part(collective, channels, channel)
        at = ring.position(collective.member)
        up, down = ring.member(at + 1), ring.member(at - 1)
        yield from ring_pass(blocks, first=(at or blocks.parts) - 1, to=up, source=down, reduces=True)
        yield from ring_pass(blocks, first=at, to=up, source=down, reduces=False)

    return _lanes(lane, channels)


def all_gather_in_channels(collective: Collective, /, *, channels: int) -> Sequence[Lane]:
    """n - 1 steps in each channel; (n - 1) s bytes each way."""

    def lane(channel: int) -> Iterator[Step]:
        ring, at = _placed(collective, channel)
        blocks = _InOrder(shards_of(collective).cut(channels, channel), ring)
        yield from ring_pass(blocks, first=at, to=ring.member(at + 1), source=ring.member(at - 1), reduces=False)

    return _lanes(lane, channels)


def reduce_scatter_in_channels(collective: Collective, /, *, channels: int) -> Sequence[Lane]:
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


def hierarchical_all_reduce(collective: Collective, /) -> Sequence[Lane]:
    """Reduce-scatter on the node, all-reduce between nodes, all-gather on the node: 2 + 2(N - 1) steps.

    With k members on each of N nodes, a member sends 2s(k - 1)/k bytes on its node and 2s(N - 1)/(N k) beyond.
    """
    return [_round_trip(_array_grid(collective, part)) for part in in_slices(_array_blocks(collective))]


def hierarchical_all_gather(collective: Collective, /) -> Sequence[Lane]:
    """All-gather between nodes, then on the node: 1 + N - 1 steps; (N - 1) s bytes sent beyond the node."""
    return [grid.gather() for grid in _member_grids(collective, shards_of(collective))]


def hierarchical_reduce_scatter(collective: Collective, /) -> Sequence[Lane]:
    """Reduce-scatter on the node, then between nodes: 1 + N - 1 steps; s(N - 1)/n bytes sent beyond the node."""
    return [grid.reduce() for grid in _member_grids(collective, array_of(collective))]


def stages(grid: Grid, *, reduces: bool) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """What a member sends in `Grid.reduce` or `Grid.gather`: (steps, (peer, bytes) of all of them), twice."""
    inside = [(peer, grid.held_bytes(peer if reduces else grid.member)) for peer in grid.others()]
    node, nodes = grid.node, len(grid.layout.nodes)
    beyond: dict[int, int] = {}
    for column in grid.columns:
        kept = grid.size_at(node if reduces else (node + 1) % nodes, column)
        peer = grid.layout.owners[(node + 1) % nodes][column]
        beyond[peer] = beyond.get(peer, 0) + grid.blocks.bytes_of(grid.column(column)) - kept
    both = [(1, inside), (nodes - 1, list(beyond.items()) if nodes > 1 else [])]
    yield from both if reduces else reversed(both)


def grid_of(collective: Collective) -> Grid:
    """The grid of an all-reduce, an all-gather or a reduce-scatter, for `stages`."""
    if collective.kind is CommKind.ALL_REDUCE:
        return _array_grid(collective)
    return _member_grid(collective, (shards_of if collective.kind is CommKind.ALL_GATHER else array_of)(collective))


@dataclass(frozen=True, slots=True)
class Grid:
    """Blocks by node and column, as one member sees them.

    Attributes:
        blocks: the array, or slices of all its blocks.
        index: (node, column) → number of the block; None if there is none.
        column: column → numbers of its blocks, ascending.
        held: columns → numbers of their blocks, ascending.
    """

    layout: GroupLayout
    blocks: Blocks | BlockSlices
    member: int
    index: Callable[[int, int], int | None]
    held: Callable[[tuple[int, ...]], Sequence[int]]

    @property
    def node(self) -> int:
        """The member's node."""
        return self.layout.node_of[self.member]

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns that the member owns."""
        return self.layout.owned(self.member)

    def column(self, column: int) -> Sequence[int]:
        """Numbers of the blocks of one column, ascending."""
        return self.held((column,))

    def others(self) -> list[int]:
        """The other members of the node, beginning with the next one, so that not all start with the same."""
        peers = self.layout.peers_of(self.member)
        at = peers.index(self.member)
        return [*peers[at + 1 :], *peers[:at]]

    def held_bytes(self, member: int) -> int:
        """Bytes of all blocks in the columns that a member owns."""
        return self.blocks.bytes_of(self.held(self.layout.owned(member)))

    def size_at(self, node: int, column: int) -> int:
        """Bytes of one block."""
        index = self.index(node, column)
        return 0 if index is None else self.blocks.locate(index)[1]

    def reduce(self) -> Lane:
        """On the node, then beyond: the member ends with the sums of its node's blocks in its columns."""
        theirs, own = self._on_node()
        if theirs or own:
            yield Step(theirs, own, True)
        yield from self._around(first=self.node - 1, reduces=True)

    def gather(self) -> Lane:
        """Beyond the node, then on it: from its node's blocks in its columns to the whole array."""
        yield from self._around(first=self.node, reduces=False)
        theirs, own = self._on_node()
        if theirs or own:
            yield Step(own, theirs)

    def _on_node(self) -> tuple[list[Transfer], list[Transfer]]:
        """(blocks of the columns of each other member of the node, own blocks for each of them)."""
        theirs: list[Transfer] = []
        own: list[Transfer] = []
        for peer in self.others():
            theirs += scattered(peer, self.blocks, self.held(self.layout.owned(peer)))
            own += scattered(peer, self.blocks, self.held(self.columns))
        return theirs, own

    def _around(self, *, first: int, reduces: bool) -> Lane:
        """N - 1 steps around the ring of nodes, for all columns of the member; see `ring_pass`."""
        nodes = len(self.layout.nodes)
        up, down = ((self.node + distance) % nodes for distance in (1, -1))
        for step in range(nodes - 1):
            sent = (first - step) % nodes
            sends, recvs = self._row(up, sent), self._row(down, (sent - 1) % nodes)
            yield Step(sends, recvs, reduces)

    def _row(self, peer_node: int, node: int) -> list[Transfer]:
        """The blocks of a node in the member's columns, to or from their owners on another node."""
        owners = self.layout.owners[peer_node]
        found: list[Transfer] = []
        for column in self.columns:
            index = self.index(node, column)
            if index is not None:
                found += transfer(owners[column], self.blocks.locate(index))
        return found


def _round_trip(grid: Grid) -> Iterator[Step]:
    yield from grid.reduce()
    yield from grid.gather()


def _array_grid(collective: Collective, blocks: Blocks | BlockSlices | None = None) -> Grid:
    """Every node has a block in every column."""
    layout = collective.layout or apart(collective.members)
    nodes = len(layout.nodes)
    return Grid(
        layout,
        blocks or _array_blocks(collective),
        collective.member,
        lambda node, column: column * nodes + node % nodes,
        lambda columns: _consecutive(columns, nodes),
    )


def _array_blocks(collective: Collective) -> Blocks:
    layout = collective.layout or apart(collective.members)
    return Blocks(collective.size_bytes, len(layout.nodes) * layout.columns)


def _consecutive(columns: tuple[int, ...], count: int) -> Sequence[int]:
    if len(columns) == 1:
        return range(columns[0] * count, (columns[0] + 1) * count)
    return [column * count + at for column in columns for at in range(count)]


def _member_grid(collective: Collective, blocks: Blocks | BlockSlices) -> Grid:
    """A block belongs to a member, and is where its member is."""
    layout = collective.layout or apart(collective.members)
    nodes = len(layout.nodes)
    return Grid(
        layout,
        blocks,
        collective.member,
        lambda node, column: layout.member_at(node % nodes, column),
        layout.in_columns,
    )


def _member_grids(collective: Collective, blocks: Blocks) -> list[Grid]:
    return [_member_grid(collective, part) for part in in_slices(blocks)]
