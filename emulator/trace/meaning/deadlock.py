"""Saying in words how ranks wait for each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emulator.trace.meaning.groups import group_label
from emulator.trace.meaning.merged_graph import Graph, GraphLayout
from emulator.trace.meaning.model import CommKind, Communication, Group, RankProgram
from emulator.trace.meaning.order import short_cycle

SHOWN_WAITS = 6
"""How many waits of a cycle are told; longer ones are cut."""


@dataclass(frozen=True, slots=True)
class _Wait:
    """Position `later` of a rank waits for position `earlier` (of the same rank, or of `other` where a send)."""

    rank: int
    later: int
    earlier: int
    other: int | None = None


def describe_cycle(
    programs: Sequence[RankProgram], *, groups: Sequence[Group], layout: GraphLayout, graph: Graph
) -> str:
    """One line about a short cycle of a graph that has one."""
    cycle = _find(graph, layout)
    waits = _folded(_waits(cycle, programs, layout), programs)
    shown = "; ".join(_sentence(wait, programs, groups) for wait in waits[:SHOWN_WAITS])
    rest = f"; and {len(waits) - SHOWN_WAITS} more" if len(waits) > SHOWN_WAITS else ""
    return f"the run would never finish because its ranks wait for each other: {shown}{rest}"


def _find(graph: Graph, layout: GraphLayout) -> list[int]:
    """Vertices of a short cycle, each waited for by the next; it always passes a communication."""
    _, label = graph.components()
    is_cyclic = np.bincount(label)[label] > 1
    candidates = np.flatnonzero(is_cyclic[: 2 * layout.instances]).tolist()

    def successors(vertex: int) -> list[int]:
        following = graph.successors(vertex)
        return [int(other) for other in following[label[following] == label[vertex]]]

    return short_cycle(candidates, successors)


def _waits(cycle: Sequence[int], programs: Sequence[RankProgram], layout: GraphLayout) -> list[_Wait]:
    """The edges of a cycle against their direction: who waits, for what."""
    places = _places(set(cycle), programs, layout)
    pairs = zip(cycle, [*cycle[1:], cycle[0]], strict=True)
    return [_wait(places[earlier], places[later], programs) for earlier, later in pairs][::-1]


def _places(
    vertices: set[int], programs: Sequence[RankProgram], layout: GraphLayout
) -> dict[int, list[tuple[int, int]]]:
    """(rank, position) of every node that these vertices stand for."""
    places: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for rank in range(len(programs)):
        positions, comm = layout.comm_positions[rank].tolist(), layout.comm_vertices[rank].tolist()
        for position, vertex in zip(positions, comm, strict=True):
            if vertex in vertices:
                places[vertex].append((rank, position))
        for vertex in vertices:
            if layout.base[rank] <= vertex < layout.base[rank + 1]:
                places[vertex].append((rank, vertex - layout.base[rank]))
    return places


def _wait(
    earlier: Sequence[tuple[int, int]], later: Sequence[tuple[int, int]], programs: Sequence[RankProgram]
) -> _Wait:
    before = dict(earlier)
    shared = [(rank, position, before[rank]) for rank, position in later if rank in before]
    for rank, position, needed in shared:
        if needed in _dependencies(programs[rank], position):
            return _Wait(rank, position, needed)
    if shared:
        return _Wait(*shared[0])
    (sender, sent), (receiver, received) = earlier[0], later[0]
    return _Wait(receiver, received, sent, sender)


def _dependencies(program: RankProgram, position: int) -> list[int]:
    found: list[int] = program.dep_position[program.dep_offset[position] : program.dep_offset[position + 1]].tolist()
    return found


def _folded(waits: Sequence[_Wait], programs: Sequence[RankProgram]) -> list[_Wait]:
    """Without the compute nodes between: each wait from one communication to the next."""
    start = next(i for i, wait in enumerate(waits) if wait.later in programs[wait.rank].communications)
    folded: list[_Wait] = []
    for wait in [*waits[start:], *waits[:start]]:
        if wait.later in programs[wait.rank].communications:
            folded.append(wait)
        else:
            folded[-1] = _Wait(wait.rank, folded[-1].later, wait.earlier)
    return folded


def _sentence(wait: _Wait, programs: Sequence[RankProgram], groups: Sequence[Group]) -> str:
    later = _named(programs[wait.rank].communications[wait.later], groups)
    if wait.other is None:
        earlier = _named(programs[wait.rank].communications[wait.earlier], groups)
        return f"rank {wait.rank} {later} waits for its {earlier}"
    earlier = _named(programs[wait.other].communications[wait.earlier], groups)
    return f"rank {wait.rank} {later} waits for rank {wait.other} {earlier}"


def _named(item: Communication, groups: Sequence[Group]) -> str:
    if item.kind.is_collective:
        group = groups[item.group]
        where = group_label(group.name, group.ranks) if item.group else "world"
    else:
        where = f"{'to' if item.kind == CommKind.SEND else 'from'} rank {item.peer}"
    return f"node {item.node_id} ({item.kind.label}, {where})"
