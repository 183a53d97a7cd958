"""The window of a rank: nodes wait for their dependencies, whenever those were delivered."""

from collections.abc import Mapping, Sequence

import numpy as np

from agents.play.window import Window
from emulator.planner.rank_program import Chunk
from emulator.trace.meaning.model import Resource


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


def test_ends_are_forgotten_but_never_taken_for_earlier() -> None:
    window = Window(5, most_ends=2)
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


def test_a_resident_program_begins_again_as_it_was_delivered() -> None:
    window = Window(3, is_resident=True)
    nodes = list(window.deliver(chunk(0, [[], [0], [0, 1]])))
    for _ in range(2):
        assert list(window.complete(nodes[0], 10)) == [nodes[1]]
        assert list(window.complete(nodes[1], 12)) == [nodes[2]]
        window.clear()
        assert (window.delivered, window.completed) == (0, 0)
        assert [(node, node.waiting, node.ready_ns) for node in window.rewind()] == [
            (nodes[0], 0, 0),
            (nodes[1], 1, 0),
            (nodes[2], 2, 0),
        ]
        assert (window.delivered, window.completed) == (3, 0)


def test_a_program_that_is_streamed_is_not_kept() -> None:
    window = Window(1)
    list(window.deliver(chunk(0, [[]])))
    window.clear()
    assert (list(window.rewind()), window.delivered) == ([], 0)
