"""Nodes near one of them."""

import pytest

from emulator.annexes.trace_kit.page_graph import graph_window, position_of
from emulator.errors import TraceError
from emulator.trace.meaning.workload import build_workload
from tests.support.traces import node, rank_trace

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
