"""Which operation comes before which, over all ranks."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from emulator.trace.meaning.meaning import TraceOptions
from emulator.trace.meaning.model import IntArray
from emulator.trace.meaning.trace_graphs import graph_of, layout_of, merged_graph
from emulator.trace.meaning.workload import split_traces
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
