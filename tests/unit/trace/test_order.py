"""Dependencies of one rank: what is refused, what --lenient lets pass."""

import numpy as np
import pytest

from emulator.errors import TraceError
from emulator.trace.meaning.model import RankTrace
from emulator.trace.meaning.order import (
    canonical_order,
    communication_dependencies,
    short_cycle,
    shortest_cycle_through,
)
from emulator.trace.meaning.workload import build_workload
from tests.support.random_traces import random_traces
from tests.support.traces import Node, coll, node, rank_trace


def ids(trace: RankTrace, *, lenient: bool = False) -> list[int]:
    return trace.node_id[canonical_order(trace, lenient=lenient).order].tolist()


def test_file_order_does_not_matter_and_ids_are_unsigned() -> None:
    nodes = [node(2, deps=[9]), node(9), node(1, ctrl=[2]), node(5)]
    assert ids(rank_trace(0, nodes)) == ids(rank_trace(0, nodes[::-1])) == [5, 9, 2, 1]
    huge = 2**64 - 1
    order = canonical_order(rank_trace(0, [node(huge), node(1, deps=[huge]), node(0)]))
    assert order.order.tolist() == [2, 0, 1]
    assert order.position[order.order].tolist() == [0, 1, 2]


def test_rank_without_nodes_is_fine() -> None:
    order = canonical_order(rank_trace(0, []))
    assert (len(order.order), order.dep_offset.tolist()) == (0, [0])


def test_a_dependency_twice_in_one_list_is_counted_and_once_in_each_is_no_oddity() -> None:
    order = canonical_order(rank_trace(0, [node(1), node(2, ctrl=[1], deps=[1])]))
    assert (order.dep_position.tolist(), order.duplicates) == ([0], 0)
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
        ([node(1, deps=[2]), node(2, deps=[3]), node(3, deps=[4]), node(4, deps=[3])], "3 → 4 → 3"),
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


def test_lenient_opens_cycles_of_control_dependencies_only() -> None:
    by_control = [node(1, deps=[]), node(2, ctrl=[3, 2, 1]), node(3, deps=[2])]
    order = canonical_order(rank_trace(0, by_control), lenient=True)
    assert (order.opened, order.dropped, order.dep_position.tolist()) == (2, 0, [0, 1])
    with pytest.raises(TraceError, match="cycle"):
        canonical_order(rank_trace(0, [node(2, deps=[3]), node(3, deps=[2])]), lenient=True)


# 0 → 1 → 2 → 3 → 0, and 2 → 4 → 2
GRAPH = {0: [1], 1: [2], 2: [3, 4], 3: [0], 4: [2], 5: [0]}


def test_shortest_cycle_through_a_vertex() -> None:
    assert shortest_cycle_through(0, GRAPH.__getitem__) == [0, 1, 2, 3]
    assert shortest_cycle_through(4, GRAPH.__getitem__) == [4, 2]
    assert shortest_cycle_through(5, GRAPH.__getitem__) is None


def test_shortest_of_several_is_shown_wherever_it_comes() -> None:
    assert short_cycle([5, 0, 4, 1], GRAPH.__getitem__) == [4, 2]


def waits(*nodes: Node) -> list[tuple[int, ...]]:
    workload = build_workload([rank_trace(0, nodes)])
    return communication_dependencies(workload.programs[0])


def test_what_lies_between_communications_is_left_out() -> None:
    assert waits(
        coll(1, "all_reduce"), node(2, deps=[1]), node(3, deps=[2]), coll(4, "all_reduce", deps=[3]), coll(5, "barrier")
    ) == [(), (0,), ()]


def test_a_communication_hides_those_before_it() -> None:
    assert waits(coll(1, "barrier"), coll(2, "barrier", deps=[1]), node(3, deps=[2]), coll(4, "barrier", deps=[3])) == [
        (),
        (0,),
        (1,),
    ]


def test_what_follows_from_others_is_left_out() -> None:
    """The third one depends on both of the others, of which the second waits for the first."""
    assert waits(coll(1, "barrier"), coll(2, "barrier", deps=[1]), coll(3, "barrier", deps=[1, 2])) == [(), (0,), (1,)]
    assert waits(
        coll(1, "barrier"),
        node(2, deps=[1]),
        coll(3, "barrier", deps=[2]),
        node(4, deps=[2, 3]),
        coll(5, "barrier", deps=[4]),
    ) == [(), (0,), (1,)]


@pytest.mark.parametrize("seed", range(30))
def test_the_order_of_any_two_is_that_of_the_whole_graph(seed: int) -> None:
    for program in build_workload(random_traces(seed, operations=20)).programs:
        everything: list[set[int]] = []
        for needed in np.split(program.dep_position, program.dep_offset[1:-1]):
            everything.append({int(one) for one in needed}.union(*(everything[one] for one in needed)))
        positions = list(program.communications)
        before: list[set[int]] = []
        for needed in communication_dependencies(program):
            assert not any(one in before[other] for one in needed for other in needed)
            before.append({*needed}.union(*(before[one] for one in needed)))
        assert [{positions[one] for one in mine} for mine in before] == [
            everything[position] & {*positions} for position in positions
        ]


def test_paths_join() -> None:
    assert waits(
        *(coll(1, "barrier"), coll(2, "barrier"), node(3, deps=[1]), node(4, ctrl=[2, 3]), coll(5, "barrier", deps=[4]))
    ) == [(), (), (0, 1)]


def test_the_order_is_the_canonical_one() -> None:
    """Node 2 waits for node 9, so it is the second communication."""
    assert waits(coll(2, "barrier", deps=[9]), node(9, deps=[5]), coll(5, "barrier")) == [(), (0,)]
