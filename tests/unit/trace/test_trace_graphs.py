"""Which operation comes before which, over all ranks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from emulator.errors import TraceError
from emulator.trace.meaning.meaning import TraceOptions
from emulator.trace.meaning.model import IntArray
from emulator.trace.meaning.trace_graphs import graph_of, graph_window, layout_of, merged_graph, position_of
from emulator.trace.meaning.workload import build_workload, split_traces
from tests.support.traces import Node, coll, node, rank_trace, recv, send


def edges(*ranks: list[Node], groups: dict[str, tuple[int, ...]] | None = None) -> set[tuple[int, int]]:
    traces = [rank_trace(rank, nodes) for rank, nodes in enumerate(ranks)]
    workload = split_traces(traces, groups=groups, options=TraceOptions())
    graph = merged_graph(workload.programs, layout_of(workload.programs, workload.instances))
    return {(vertex, int(after)) for vertex in range(graph.vertices) for after in graph.successors(vertex)}


def array(*values: int) -> IntArray:
    return np.array(values, dtype=np.int64)


def test_successors_are_those_of_the_edges() -> None:
    graph = graph_of(4, [(array(2, 0), array(1, 3)), (array(0), array(2))])
    assert [sorted(graph.successors(vertex).tolist()) for vertex in range(4)] == [[2, 3], [], [1], []]
    assert graph.is_acyclic()


def test_a_cycle_is_one_component() -> None:
    graph = graph_of(4, [(array(0, 1, 2, 3), array(1, 2, 0, 0))])
    assert not graph.is_acyclic()
    count, label = graph.components()
    assert (count, len(set(label[:3].tolist()))) == (2, 1)


@given(st.integers(1, 12), st.data())
def test_components_are_those_of_scipy(size: int, data: st.DataObject) -> None:
    vertex = st.integers(0, size - 1)
    pairs = data.draw(st.lists(st.tuples(vertex, vertex)))
    source, target = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    graph = graph_of(size, [(source, target)])
    matrix = csr_array((np.ones(len(pairs)), (source, target)), shape=(size, size))
    expected, same = connected_components(matrix, directed=True, connection="strong")
    count, label = graph.components()
    assert count == expected == len(set(zip(label.tolist(), same.tolist(), strict=True)))
    loops = any(one == other for one, other in pairs)
    assert graph.is_acyclic() == (count == size and not loops)


def test_a_graph_may_have_no_edge_and_no_vertex() -> None:
    assert graph_of(3, []).is_acyclic()
    assert graph_of(0, []).components()[0] == 0


def test_members_of_a_collective_are_one_vertex() -> None:
    # One instance: vertex 0 (1 would be its receive); then rank 0 from 2 on, rank 1 from 4 on.
    first = [node(1), coll(2, "all_reduce", deps=[1])]
    second = [coll(1, "all_reduce"), node(2, deps=[1]), node(3, deps=[2])]
    assert edges(first, second) == {(2, 0), (0, 5), (5, 6)}


def test_a_receive_comes_after_its_send_and_not_before() -> None:
    assert edges([send(1, 1)], [recv(1, 0)]) == {(0, 1)}


def test_collectives_of_one_group_come_in_their_order_and_of_two_groups_in_any() -> None:
    both = [coll(1, "barrier", pg="a"), coll(2, "barrier", pg="b"), coll(3, "barrier", pg="a")]
    [edge] = edges(both, both, groups={"a": (0, 1), "b": (0, 1)})
    assert len(set(edge)) == 2
    same = [coll(1, "barrier", pg="a"), coll(3, "barrier", pg="a")]
    assert edges(same, same, groups={"a": (0, 1)}) == {(0, 1)}


CHAIN = [node(10 * at, deps=[10 * (at - 1)] if at > 1 else []) for at in range(1, 8)]


def test_a_window_reaches_as_far_as_its_depth() -> None:
    trace = rank_trace(0, CHAIN)
    program = build_workload([trace]).programs[0]
    centre = position_of(program, trace, 40)
    window = graph_window(program, centre, depth=2)
    assert window.layer == {1: 0, 2: 1, 3: 2, 4: 3, 5: 4}
    assert window.edges == [(1, 2), (2, 3), (3, 4), (4, 5)]
    assert window.left_out == 0


def test_a_node_without_dependencies_stands_just_above_what_needs_it() -> None:
    nodes = [node(1), node(2, deps=[1]), node(3), node(4, deps=[2, 3])]
    window = graph_window(build_workload([rank_trace(0, nodes)]).programs[0], 3, depth=2)
    assert window.layer == {0: 0, 1: 1, 2: 1, 3: 2}


def test_what_has_no_room_is_counted() -> None:
    nodes = [node(1), *(node(at, deps=[1]) for at in range(2, 12))]
    window = graph_window(build_workload([rank_trace(0, nodes)]).programs[0], 0, depth=1, most=4)
    assert (len(window.layer), window.left_out) == (4, 7)


def test_a_node_that_is_not_there_is_named() -> None:
    trace = rank_trace(0, CHAIN)
    with pytest.raises(TraceError, match=r"trace\.0\.et, rank 0: has no node 11"):
        position_of(build_workload([trace]).programs[0], trace, 11)
