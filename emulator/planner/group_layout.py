"""Where the members of a group are: on which nodes, and at which rails.

A node is a host with its ranks. A rail is what interfaces of the same position connect to: interface r of every host is
at rail r. Algorithms that know the layout send between nodes from rail to the same rail.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate

from emulator.topology.model import Topology


class GroupLayout:
    """The layout of one group, from `layout_of`; equal layouts are the same object.

    A *column* is a place on a node: (rail, how many members of the node come before it at that rail). Members of one
    column are at the same rail, at most one per node. On every node, each column has an *owner*: the member in it or,
    where there is none, another member of the node.

    Attributes:
        nodes: members of each node, by column; nodes are numbered in the order of their first member.
        node_of: member → number of its node.
        column_of: member → number of its column.
        owners: node → column → member.
        starts: node → number of members on the nodes before it.
    """

    __slots__ = ("_in_columns", "_owned", "column_of", "columns", "node_of", "nodes", "owners", "starts")

    def __init__(self, node_of: Sequence[int], rail_of: Sequence[int]) -> None:
        self.node_of = tuple(node_of)
        by_node: list[list[int]] = [[] for _ in range(max(node_of) + 1)]
        for member, node in enumerate(node_of):
            by_node[node].append(member)
        self.nodes = tuple(tuple(sorted(members, key=lambda one: (rail_of[one], one))) for members in by_node)
        places = [_places(members, rail_of) for members in self.nodes]
        numbers = {place: number for number, place in enumerate(sorted({one for own in places for one in own}))}
        self.columns = len(numbers)
        columns = [[numbers[place] for place in own] for own in places]
        of_member = {
            member: column
            for members, own in zip(self.nodes, columns, strict=True)
            for member, column in zip(members, own, strict=True)
        }
        self.column_of = tuple(of_member[member] for member in range(len(of_member)))
        self.owners = tuple(
            _owners(members, own, self.columns) for members, own in zip(self.nodes, columns, strict=True)
        )
        self.starts = tuple(accumulate(map(len, self.nodes), initial=0))
        self._owned: dict[int, tuple[int, ...]] = {}
        self._in_columns: dict[tuple[int, ...], tuple[int, ...]] = {}

    def peers_of(self, member: int) -> tuple[int, ...]:
        """All members of a member's node, itself included."""
        return self.nodes[self.node_of[member]]

    def owned(self, member: int) -> tuple[int, ...]:
        """The columns that a member owns on its node."""
        if member not in self._owned:
            owners = self.owners[self.node_of[member]]
            self._owned[member] = tuple(column for column, owner in enumerate(owners) if owner == member)
        return self._owned[member]

    def member_at(self, node: int, column: int) -> int | None:
        """The member of a node in a column; None if there is none."""
        owner = self.owners[node][column]
        return owner if self.column_of[owner] == column else None

    def in_columns(self, columns: tuple[int, ...]) -> tuple[int, ...]:
        """Members of all nodes in these columns, ascending."""
        if columns not in self._in_columns:
            found = [self.member_at(node, column) for column in columns for node in range(len(self.nodes))]
            self._in_columns[columns] = tuple(sorted(member for member in found if member is not None))
        return self._in_columns[columns]

    def node_at(self, position: int) -> int:
        """The node of a position when the members of all nodes are counted through."""
        return bisect_right(self.starts, position) - 1


def _places(members: Sequence[int], rail_of: Sequence[int]) -> list[tuple[int, int]]:
    """(rail, count of members before it at that rail), of members in the order of their rails."""
    places: list[tuple[int, int]] = []
    for member in members:
        rail = rail_of[member]
        places.append((rail, places[-1][1] + 1 if places and places[-1][0] == rail else 0))
    return places


def _owners(members: Sequence[int], columns: Sequence[int], count: int) -> tuple[int, ...]:
    there = dict(zip(columns, members, strict=True))
    return tuple(there.get(column, members[column % len(members)]) for column in range(count))


_KNOWN: dict[tuple[tuple[int, ...], tuple[int, ...]], GroupLayout] = {}


def layout_of(nodes: Sequence[Hashable], rails: Sequence[int]) -> GroupLayout:
    """The layout of a group.

    Args:
        nodes: the node of each member, by any name.
        rails: the rail of each member; only their order counts.
    """
    numbers: dict[Hashable, int] = {}
    order = {rail: number for number, rail in enumerate(sorted(set(rails)))}
    key = tuple(numbers.setdefault(node, len(numbers)) for node in nodes), tuple(order[rail] for rail in rails)
    if key not in _KNOWN:
        _KNOWN[key] = GroupLayout(*key)
    return _KNOWN[key]


@cache
def apart(members: int) -> GroupLayout:
    """The layout of a group whose members are on nodes of their own."""
    return layout_of(range(members), [0] * members)


@dataclass(frozen=True, slots=True)
class Layouts:
    """The layouts of groups of ranks.

    Attributes:
        nodes: node of each world rank; empty if no layout is known.
        rails: its rail.
        domains: nodes whose members reach each other through a scale-up domain.
    """

    nodes: Sequence[int] = ()
    rails: Sequence[int] = ()
    domains: frozenset[int] = frozenset()
    _known: dict[tuple[int, ...], GroupLayout] = field(default_factory=dict, init=False, compare=False)

    def of(self, ranks: Sequence[int]) -> GroupLayout | None:
        """The layout of a group of world ranks; None if no layout is known."""
        if not self.nodes:
            return None
        ranks = tuple(ranks)
        if ranks not in self._known:
            self._known[ranks] = layout_of([self.nodes[one] for one in ranks], [self.rails[one] for one in ranks])
        return self._known[ranks]

    def in_domains(self, ranks: Sequence[int]) -> GroupLayout | None:
        """The layout of a group if all its nodes have a scale-up domain, else None."""
        return self.of(ranks) if self.domains and self.domains.issuperset(self.nodes[one] for one in ranks) else None


def layouts_on(topology: Topology) -> Layouts:
    """The layouts of groups on a topology: a host is a node, and the position of an interface is a rail."""
    ranks = range(topology.ranks)
    return Layouts(
        topology.host_index[: topology.ranks],
        [topology.port_of(rank)[1] for rank in ranks],
        frozenset(host for host in set(topology.host_index) if topology.hosts[host].domain is not None),
    )
