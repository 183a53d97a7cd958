"""The cycle shown is a short one."""

from __future__ import annotations

from emulator.trace.cycles import short_cycle, shortest_cycle_through

# 0 → 1 → 2 → 3 → 0, and 2 → 4 → 2
GRAPH = {0: [1], 1: [2], 2: [3, 4], 3: [0], 4: [2], 5: [0]}


def test_shortest_cycle_through_a_vertex() -> None:
    assert shortest_cycle_through(0, GRAPH.__getitem__) == [0, 1, 2, 3]
    assert shortest_cycle_through(4, GRAPH.__getitem__) == [4, 2]
    assert shortest_cycle_through(5, GRAPH.__getitem__) is None


def test_shortest_of_several_is_shown_wherever_it_comes() -> None:
    assert short_cycle([5, 0, 4, 1], GRAPH.__getitem__) == [4, 2]
