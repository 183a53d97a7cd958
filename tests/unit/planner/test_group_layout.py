"""Where members are: nodes, columns, and who stands in where a node has no member at a rail."""

from hypothesis import given
from hypothesis import strategies as st

from emulator.planner.group_layout import Layouts, apart, layout_of, layouts_on
from emulator.topology.model import Domain, Host, Topology
from tests.support.topologies import shipped_topology

PLACES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), min_size=1, max_size=30)


def test_a_column_is_a_rail() -> None:
    layout = layout_of("bbaa", [1, 0, 0, 1])
    assert layout.nodes == ((1, 0), (2, 3))
    assert layout.column_of == (1, 0, 0, 1)
    assert [layout.in_columns((column,)) for column in (0, 1)] == [(1, 2), (0, 3)]


def test_members_at_one_rail_are_columns_of_their_own() -> None:
    layout = layout_of("aabb", [7, 7, 7, 7])
    assert (layout.columns, layout.column_of) == (2, (0, 1, 0, 1))


def test_others_stand_in_where_a_node_has_no_member_at_a_rail() -> None:
    layout = layout_of("aaab", [0, 1, 2, 1])
    assert layout.owners == ((0, 1, 2), (3, 3, 3))
    assert (layout.owned(3), layout.owned(1)) == ((0, 1, 2), (1,))
    assert [layout.member_at(1, column) for column in range(3)] == [None, 3, None]


@given(places=PLACES)
def test_every_column_of_a_node_has_one_owner_and_every_member_its_own_column(places: list[tuple[int, int]]) -> None:
    layout = layout_of([node for node, _ in places], [rail for _, rail in places])
    for node, members in enumerate(layout.nodes):
        owned = sorted(column for member in members for column in layout.owned(member))
        assert owned == list(range(layout.columns))
        assert all(layout.owners[node][layout.column_of[member]] == member for member in members)
    every = sorted(one for column in range(layout.columns) for one in layout.in_columns((column,)))
    assert every == list(range(len(places)))


def test_equal_layouts_are_one() -> None:
    assert layout_of("xxyy", [0, 4, 0, 4]) is layout_of([9, 9, 3, 3], [2, 8, 2, 8])
    assert apart(3) is layout_of("abc", [0, 0, 0])


def test_a_topology_has_hosts_as_nodes_and_interfaces_as_rails() -> None:
    layouts = layouts_on(shipped_topology("rail-4x4", ranks=16))
    layout = layouts.of(range(16))
    assert layout.nodes == tuple(tuple(range(4 * host, 4 * host + 4)) for host in range(4))
    one_rail = layouts.of([1, 5, 9, 13])
    assert one_rail is apart(4)
    assert layouts.in_domains(range(16)) is None


def test_only_groups_on_hosts_with_domains_are_in_domains() -> None:
    hosts = [Host("a", domain=Domain(8 * 10**9, 0)), Host("b", domain=Domain(8 * 10**9, 0)), Host("c")]
    layouts = layouts_on(Topology("t", hosts, (0, 0, 1, 1, 2), ("127.0.0.1",) * 5))
    assert layouts.in_domains([0, 1, 2, 3]) is layout_of("aabb", [0] * 4)
    assert layouts.in_domains([0, 1, 4]) is None


def test_nothing_is_known_without_places() -> None:
    assert Layouts().of([0, 1]) is None
