"""Finding one short cycle to show, in graphs given as "what follows a vertex"."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

MAX_STARTS = 32
"""How many vertices a cycle is looked for from: more would make a shorter message, seldom."""


def shortest_cycle_through(start: int, successors: Callable[[int], Iterable[int]]) -> list[int] | None:
    """Vertices of a shortest cycle that leaves and re-enters `start`, in edge order from it; None if there is none."""
    parent: dict[int, int] = {}
    queue = deque([start])
    while queue:
        vertex = queue.popleft()
        for following in successors(vertex):
            if following == start:
                return _walk_back(vertex, start, parent)
            if following not in parent:
                parent[following] = vertex
                queue.append(following)
    return None


def short_cycle(candidates: Iterable[int], successors: Callable[[int], Iterable[int]]) -> list[int]:
    """The shortest of the cycles through the first few candidates, of which at least one must lie on a cycle."""
    best: list[int] = []
    tried = 0
    for start in candidates:
        cycle = shortest_cycle_through(start, successors)
        if cycle is not None and (not best or len(cycle) < len(best)):
            best = cycle
        tried += cycle is not None
        if tried == MAX_STARTS:
            break
    return best


def _walk_back(vertex: int, start: int, parent: dict[int, int]) -> list[int]:
    path = [vertex]
    while path[-1] != start:
        path.append(parent[path[-1]])
    return path[::-1]
