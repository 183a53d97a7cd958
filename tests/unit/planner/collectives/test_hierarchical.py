"""Hierarchical algorithms: what crosses the network, and at which rail."""

from __future__ import annotations

import pytest

from emulator.planner.group_layout import layout_of
from emulator.trace.meaning.model import CommKind
from tests.support.layouts import beyond, even_layout

S = 6 * 8 * 1000


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
