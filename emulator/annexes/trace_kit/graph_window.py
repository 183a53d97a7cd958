"""A window of a rank's graph: the nodes that are near one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from emulator.errors import TraceError
from emulator.trace.meaning.model import RankProgram, RankTrace

MOST_NODES = 48
"""More would not be readable; those nearest to the centre are kept."""


@dataclass(frozen=True, slots=True)
class GraphWindow:
    """Nodes near a centre.

    Attributes:
        centre: position of the node in canonical order.
        layer: position → its layer: dependencies have smaller ones.
        edges: (dependency, dependent), positions, both in the window.
        left_out: nodes within the depth for which there was no room.
    """

    centre: int
    layer: Mapping[int, int]
    edges: Sequence[tuple[int, int]]
    left_out: int


def position_of(program: RankProgram, trace: RankTrace, node_id: int) -> int:
    """The position of a node by its id.

    Raises:
        TraceError: the rank has no such node.
    """
    found = np.flatnonzero(trace.node_id[program.order] == np.uint64(node_id))
    if not len(found):
        raise TraceError(f"has no node {node_id}", path=trace.path, rank=trace.rank)
    return int(found[0])


def graph_window(program: RankProgram, centre: int, *, depth: int, most: int = MOST_NODES) -> GraphWindow:
    """At most so many nodes at most `depth` dependencies before or after a position, the nearest ones first."""
    before = [needed.tolist() for needed in np.split(program.dep_position, program.dep_offset[1:-1])]
    after: list[list[int]] = [[] for _ in before]
    for position, needed in enumerate(before):
        for other in needed:
            after[other].append(position)
    kept, left_out = {centre}, 0
    up, down = [centre], [centre]
    for _ in range(depth):
        up, lost_up = _next_ring(up, before, kept, most)
        down, lost_down = _next_ring(down, after, kept, most)
        left_out += lost_up + lost_down
    edges = [(other, position) for position in sorted(kept) for other in before[position] if other in kept]
    return GraphWindow(centre, _layers(sorted(kept), edges), edges, left_out)


def _next_ring(
    ring: Sequence[int], beside: Sequence[Sequence[int]], kept: set[int], most: int
) -> tuple[list[int], int]:
    """What lies beside a ring and was not kept yet; how many of it there was no room for."""
    found = dict.fromkeys(other for position in ring for other in beside[position] if other not in kept)
    added = list(found)[: most - len(kept)]
    kept.update(added)
    return added, len(found) - len(added)


def _layers(positions: Sequence[int], edges: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Each node one layer below the lowest of its dependencies; those without stand just above what needs them."""
    layer = dict.fromkeys(positions, 0)
    for needed, position in edges:  # ascending: dependencies have smaller positions
        layer[position] = max(layer[position], layer[needed] + 1)
    has_needs = {position for _, position in edges}
    for position in reversed(positions):
        followers = [layer[after] for needed, after in edges if needed == position]
        if position not in has_needs and followers:
            layer[position] = min(followers) - 1
    return layer
