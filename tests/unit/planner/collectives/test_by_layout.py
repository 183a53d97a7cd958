"""Rings in channels: their order, and the rails that they use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.planner.collectives.by_layout import Ring
from emulator.planner.group_layout import layout_of
from emulator.trace.meaning.model import CommKind
from tests.support.layouts import beyond, even_layout

S = 6 * 8 * 1000


@given(
    places=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=20),
    channel=st.integers(0, 63),
)
def test_a_ring_visits_everybody_once_and_every_node_at_once(places: list[tuple[int, int]], channel: int) -> None:
    ring = Ring(layout_of([node for node, _ in places], [rail for _, rail in places]), channel)
    order = [ring.member(position) for position in range(len(places))]
    assert sorted(order) == list(range(len(places)))
    assert [ring.position(member) for member in order] == list(range(len(places)))
    nodes = [ring.layout.node_of[member] for member in order]
    assert nodes == sorted(nodes)


@pytest.mark.parametrize("kind", [CommKind.ALL_REDUCE, CommKind.ALL_GATHER, CommKind.REDUCE_SCATTER])
def test_with_a_channel_for_each_rail_all_carry_the_same_and_nothing_changes_rails(kind: CommKind) -> None:
    found = beyond(kind, "ring:channels=4", even_layout(2, 4), S)
    assert set(found) == {(rail, rail) for rail in range(4)}
    assert len(set(found.values())) == 1
    assert sum(found.values()) == sum(beyond(kind, "ring", even_layout(2, 4), S).values())


def test_a_ring_enters_a_node_where_it_left_the_one_before() -> None:
    ring = Ring(even_layout(4, 4), 1)
    assert [ring.member(position) % 4 for position in range(16)] == [1, 2, 3, 0, 0, 3, 2, 1] * 2


@pytest.mark.parametrize(("nodes", "rails"), [(2, 4), (4, 2), (3, 4), (1, 8), (8, 1)])
def test_every_rail_carries_the_same_and_nothing_changes_rails(nodes: int, rails: int) -> None:
    layout = even_layout(nodes, rails)
    for kind, rail_bytes in (
        (CommKind.ALL_REDUCE, 2 * S * (nodes - 1) // rails),
        (CommKind.ALL_GATHER, S * nodes * (nodes - 1)),
        (CommKind.REDUCE_SCATTER, S * (nodes - 1) // rails),
    ):
        expected = {(rail, rail): rail_bytes for rail in range(rails)} if nodes > 1 else {}
        assert beyond(kind, "hierarchical", layout, S) == expected


def test_a_ring_leaves_a_node_at_one_rail() -> None:
    assert beyond(CommKind.ALL_REDUCE, "ring", even_layout(2, 4), S) == {(3, 0): 2 * 2 * S * 7 // 8}


def test_a_node_without_a_rail_sends_at_another() -> None:
    layout = layout_of("aab", [0, 1, 1])
    assert beyond(CommKind.ALL_REDUCE, "hierarchical", layout, S) == {(0, 1): S // 2, (1, 1): S, (1, 0): S // 2}
