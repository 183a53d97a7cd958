"""Window, compute resource, usage and tags, each by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from agents.play import tags
from agents.play.compute import ComputeResource
from agents.play.usage import Usage
from agents.play.window import Node, Window
from emulator.planner.rank_program import Chunk
from emulator.trace.model import Resource


def chunk(first: int, dependencies: Sequence[Sequence[int]], ids: Mapping[int, int] | None = None) -> Chunk:
    """Device nodes from position `first` on; `dependencies` are positions."""
    return Chunk(
        rank=0,
        first_position=first,
        node_id=np.array([(ids or {}).get(first + k, 100 + first + k) for k in range(len(dependencies))], np.uint64),
        resource=np.full(len(dependencies), Resource.DEVICE, np.uint32),
        duration_ns=np.full(len(dependencies), 5, np.uint64),
        dependencies=np.array([len(needed) for needed in dependencies], np.uint32),
        distance=np.array([first + k - p for k, needed in enumerate(dependencies) for p in needed], np.uint64),
        communications={},
    )


# --- window ---------------------------------------------------------------------------------------------------------


def test_a_node_waits_for_those_of_its_dependencies_that_are_not_complete() -> None:
    window = Window(4)
    nodes = list(window.deliver(chunk(0, [[], [0], [0, 1]])))
    assert [node.waiting for node in nodes] == [0, 1, 2]
    assert [node.node_id for node in nodes] == [100, 101, 102]
    assert list(window.complete(nodes[0], 10)) == [nodes[1]]
    (last,) = window.deliver(chunk(3, [[0, 1]]))
    assert (last.waiting, last.ready_ns) == (1, 10)
    assert list(window.complete(nodes[1], 7)) == [nodes[2], last]
    assert [nodes[2].ready_ns, last.ready_ns] == [10, 10]
    assert (window.delivered, window.completed) == (4, 2)


def test_a_cleared_window_begins_again() -> None:
    window = Window(2)
    (first,) = window.deliver(chunk(0, [[]]))
    list(window.complete(first, 10))
    window.clear()
    assert (window.delivered, window.completed, window._ends) == (0, 0, {})
    nodes = list(window.deliver(chunk(0, [[], [0]])))
    assert [(node.waiting, node.ready_ns) for node in nodes] == [(0, 0), (1, 0)]


def test_ends_are_forgotten_but_never_taken_for_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.play.window.REMEMBERED_ENDS", 2)
    window = Window(5)
    nodes = list(window.deliver(chunk(0, [[], [], [], []])))
    for node, end in zip(nodes, (30, 20, 40, 10), strict=True):
        list(window.complete(node, end))
    (last,) = window.deliver(chunk(4, [[1, 3]]))  # the end of 1 is forgotten: not after 30
    assert (last.waiting, last.ready_ns) == (0, 30)


def test_a_whole_program_needs_no_memory_of_ends() -> None:
    window = Window(3)
    for node in list(window.deliver(chunk(0, [[], [], []]))):
        list(window.complete(node, 5))
    assert window._ends == {}


# --- compute --------------------------------------------------------------------------------------------------------


def waiting(node_id: int, ready_ns: int, duration_ns: int) -> Node:
    node = Node(0, node_id, Resource.CPU, duration_ns)
    node.ready_ns = ready_ns
    return node


def test_a_resource_runs_one_node_at_a_time_in_ready_order() -> None:
    resource = ComputeResource()
    assert resource.begin_next() is None
    for node_id, ready, duration in ((3, 10, 5), (1, 12, 4), (2, 10, 6)):
        resource.enqueue(waiting(node_id, ready, duration))
    ran = []
    while (begin := resource.begin_next()) is not None:
        assert resource.begin_next() is None
        end = resource.ends_ns
        ran.append((resource.end().node_id, begin, end))
    assert ran == [(2, 10, 16), (3, 16, 21), (1, 21, 25)]


def test_an_idle_resource_begins_when_the_node_is_ready() -> None:
    resource = ComputeResource()
    resource.enqueue(waiting(1, 0, 5))
    resource.begin_next()
    resource.end()
    resource.enqueue(waiting(2, 50, 5))
    assert (resource.begin_next(), resource.ends_ns) == (50, 55)


# --- usage ----------------------------------------------------------------------------------------------------------


def seen(usage: Usage) -> tuple[int, int, int]:
    return usage.compute_ns, usage.communication_ns, usage.overlap_ns


def test_usage_counts_each_activity_and_both_at_once() -> None:
    usage = Usage(100)
    usage.device_begins(110)
    usage.communication(+1, 120)
    usage.communication(+1, 130)
    usage.device_ends(150, 40)
    usage.communication(-1, 160)
    usage.communication(-1, 170)
    usage.device_begins(180)
    usage.device_ends(181, 1)
    assert seen(usage) == (41, 50, 30)


def test_usage_is_told_of_the_past() -> None:
    usage = Usage(0)
    usage.communication(+1, 50)
    usage.device_begins(20)  # counts from 50 on where overlap is concerned
    usage.communication(-1, 60)
    usage.device_ends(55, 35)
    assert seen(usage) == (35, 10, 10)


# --- tags -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("serial", [0, 1, 2**56 - 1])
def test_tags_come_apart_again_and_fit_64_bits(serial: int) -> None:
    made = {
        tags.data_tag(serial, 0): (tags.DATA, 0, serial),
        tags.data_tag(serial, tags.MAX_LANES - 1): (tags.DATA, tags.MAX_LANES - 1, serial),
        tags.credit_tag(serial): (tags.CREDIT, 0, serial),
        tags.pair_tag(serial): (tags.PAIR, 0, serial),
    }
    assert len(made) == 4
    assert {tag: tags.split(tag) for tag in made} == made
    assert all(0 <= tag < 2**64 for tag in made)


def test_spans_of_compute_join_where_nodes_follow_one_another() -> None:
    usage = Usage(0)
    for begin, end in ((0, 10), (10, 15), (20, 30), (30, 30), (40, 41)):
        usage.device_begins(begin)
        usage.device_ends(end, end - begin)
    assert usage.take_spans() == [(0, 15), (20, 30), (40, 41)]
    usage.resume_span((40, 41))
    usage.device_begins(41)
    usage.device_ends(45, 4)
    assert usage.take_spans() == [(40, 45)]
    assert usage.take_spans() == []
    assert usage.compute_ns == 30
