"""Compute nodes on one resource: order, exact schedule."""

from __future__ import annotations

from agents.play.compute import ComputeResource
from agents.play.window import WindowNode
from emulator.trace.meaning.model import Resource


def node(node_id: int, *, ready: int, duration: int) -> WindowNode:
    found = WindowNode(node_id, node_id, int(Resource.DEVICE), duration)
    found.ready_ns = ready
    return found


def test_nodes_run_in_the_order_they_become_ready_and_ties_by_id() -> None:
    resource = ComputeResource()
    for one in (node(3, ready=5, duration=1), node(2, ready=5, duration=1), node(9, ready=1, duration=1)):
        resource.enqueue(one)
    order = []
    while resource.begin_next() is not None:
        order.append(resource.end().node_id)
    assert order == [9, 2, 3]


def test_a_node_that_waited_begins_when_the_one_before_it_ends_even_if_that_is_noticed_late() -> None:
    resource = ComputeResource()
    resource.enqueue(node(1, ready=10, duration=5))
    resource.enqueue(node(2, ready=11, duration=7))
    assert resource.begin_next() == 10
    assert resource.begin_next() is None  # one at a time
    assert resource.end().node_id == 1
    assert resource.begin_next() == 15
    assert resource.ends_ns == 22


def test_an_idle_resource_begins_a_node_when_it_is_ready() -> None:
    resource = ComputeResource()
    assert resource.begin_next() is None
    resource.enqueue(node(1, ready=100, duration=0))
    assert (resource.begin_next(), resource.ends_ns) == (100, 100)
    resource.end()
    resource.enqueue(node(2, ready=50, duration=1))
    assert resource.begin_next() == 100  # not before the one that ran
