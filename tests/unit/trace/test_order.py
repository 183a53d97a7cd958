"""Dependencies of one rank: what is refused, what --lenient lets pass."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.errors import TraceError
from emulator.trace.meaning.model import RankTrace
from emulator.trace.meaning.order import canonical_order, short_cycle, shortest_cycle_through
from tests.support.traces import Node, node, rank_trace


def ids(trace: RankTrace, *, lenient: bool = False) -> list[int]:
    played: list[int] = trace.node_id[canonical_order(trace, lenient=lenient).order].tolist()
    return played


def test_file_order_does_not_matter() -> None:
    nodes = [node(2, deps=[9]), node(9), node(1, ctrl=[2]), node(5)]
    assert ids(rank_trace(0, nodes)) == ids(rank_trace(0, nodes[::-1])) == [5, 9, 2, 1]


def test_ids_beyond_signed_numbers_are_ordered_as_unsigned() -> None:
    huge = 2**64 - 1
    assert ids(rank_trace(0, [node(huge), node(1, deps=[huge]), node(0)])) == [0, huge, 1]


def test_rank_without_nodes_is_fine() -> None:
    order = canonical_order(rank_trace(0, []))
    assert (len(order.order), order.dep_offset.tolist()) == (0, [0])


def test_same_dependency_in_both_lists_is_one_and_no_oddity() -> None:
    order = canonical_order(rank_trace(0, [node(1), node(2, ctrl=[1], deps=[1])]))
    assert (order.dep_position.tolist(), order.duplicates) == ([0], 0)


def test_dependency_twice_in_one_list_is_counted() -> None:
    order = canonical_order(rank_trace(0, [node(1), node(2), node(3, ctrl=[2, 2], deps=[1, 1, 2])]))
    assert (order.dep_position.tolist(), order.duplicates) == ([0, 1], 2)


def test_dangling_dependency_is_refused_with_file_node_and_what_to_do() -> None:
    trace = rank_trace(3, [node(1, deps=[7]), node(2, ctrl=[1, 8])])
    with pytest.raises(TraceError) as error:
        canonical_order(trace)
    assert str(error.value) == (
        "trace.3.et, node 1: depends on node 7, which is not in the file (2 such dependencies in it): "
        "the file is incomplete, or give --lenient to drop them"
    )


def test_lenient_drops_dangling_dependencies_and_keeps_the_others() -> None:
    order = canonical_order(rank_trace(0, [node(1, deps=[7]), node(2, ctrl=[1, 8])]), lenient=True)
    assert (order.dropped, order.dep_offset.tolist(), order.dep_position.tolist()) == (2, [0, 0, 1], [0])


@pytest.mark.parametrize(
    ("nodes", "shown"),
    [
        ([node(4, deps=[4])], "4 → 4"),
        ([node(1, deps=[2]), node(2, ctrl=[1])], "1 → 2 → 1"),
        ([node(1), node(8, deps=[1, 5]), node(5, deps=[6]), node(6, deps=[8]), node(9, deps=[8])], "8 → 5 → 6 → 8"),
    ],
)
def test_cycle_is_refused_naming_its_nodes(nodes: list[Node], shown: str) -> None:
    with pytest.raises(TraceError, match="cycle") as error:
        canonical_order(rank_trace(0, nodes))
    assert error.value.path == "trace.0.et"
    named = [int(text) for text in str(error.value).split(": ")[-1].split(" → ")]
    expected = [int(text) for text in shown.split(" → ")]
    assert len(named) == len(expected)
    assert set(named) == set(expected)


def test_long_cycle_is_cut() -> None:
    with pytest.raises(TraceError, match=r"→ … \(50 nodes\)$"):
        canonical_order(rank_trace(0, [node(i, deps=[(i + 1) % 50]) for i in range(50)]))


def test_the_shown_cycle_is_none_of_the_nodes_that_merely_wait_for_it() -> None:
    nodes = [node(1, deps=[2]), node(2, deps=[3]), node(3, deps=[4]), node(4, deps=[3])]
    with pytest.raises(TraceError, match="cycle") as error:
        canonical_order(rank_trace(0, nodes))
    assert {int(text) for text in str(error.value).split(": ")[-1].split(" → ")} == {3, 4}


def test_lenient_opens_cycles_of_control_dependencies_only() -> None:
    by_control = [node(1, deps=[]), node(2, ctrl=[3, 2, 1]), node(3, deps=[2])]
    order = canonical_order(rank_trace(0, by_control), lenient=True)
    assert (order.opened, order.dropped, order.dep_position.tolist()) == (2, 0, [0, 1])
    with pytest.raises(TraceError, match="cycle"):
        canonical_order(rank_trace(0, [node(2, deps=[3]), node(3, deps=[2])]), lenient=True)


def test_positions_and_rows_are_inverse() -> None:
    order = canonical_order(rank_trace(0, [node(5), node(3, deps=[5]), node(4)]))
    assert np.array_equal(order.position[order.order], [0, 1, 2])


# 0 → 1 → 2 → 3 → 0, and 2 → 4 → 2
GRAPH = {0: [1], 1: [2], 2: [3, 4], 3: [0], 4: [2], 5: [0]}


def test_shortest_cycle_through_a_vertex() -> None:
    assert shortest_cycle_through(0, GRAPH.__getitem__) == [0, 1, 2, 3]
    assert shortest_cycle_through(4, GRAPH.__getitem__) == [4, 2]
    assert shortest_cycle_through(5, GRAPH.__getitem__) is None


def test_shortest_of_several_is_shown_wherever_it_comes() -> None:
    assert short_cycle([5, 0, 4, 1], GRAPH.__getitem__) == [4, 2]
