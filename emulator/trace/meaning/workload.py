"""From the traces of all ranks to a workload that is proven to finish.

The proof also gives the window of nodes that a rank must be able to hold. A run that gets stuck has every rank waiting
for a communication. So it finishes when the merged graph has no cycle, and when what the window keeps away from a rank
is never what others wait for.

The window: a rank's nodes are delivered in canonical order, and position p while fewer than W of the positions before
it are not done. It is enough that each communication at p comes after all at positions ≤ p - W: then, of the
communications that are not done, one that waits for no other has all before p - W behind it, so it is delivered, and so
is all it depends on. (Compute nodes need no such edge: they end by themselves once the communications before them
have.) The condition is sufficient, not necessary: the window it yields may be larger than the smallest that works.

With W = 1 the condition reads: all ranks do their communications strictly in canonical order. That graph has only
communications in it, and if it has no cycle neither has any other: most traces are proven by it alone.

If it has a cycle, the error says in words how ranks wait for each other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from emulator.errors import TraceError
from emulator.trace.meaning.groups import GroupTable, group_label
from emulator.trace.meaning.meaning import Interpreter, Meaning, TraceOptions
from emulator.trace.meaning.model import CommKind, Communication, Group, IntArray, RankProgram, RankTrace, Workload
from emulator.trace.meaning.order import RankOrder, canonical_order, short_cycle
from emulator.trace.meaning.pairing import pair
from emulator.trace.meaning.program import check_durations, oddities, rank_program
from emulator.trace.meaning.trace_graphs import Graph, GraphLayout, graph_of, layout_of, merged_edges, message_edges

__all__ = ["TraceOptions", "build_workload", "split_traces"]

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


DEFAULT_WINDOW = 4096
"""Nodes; agents hold at most as many of a rank, unless the trace needs more."""


def prove(
    programs: Sequence[RankProgram], *, groups: Sequence[Group], instances: int, window: int = DEFAULT_WINDOW
) -> int:
    """Prove that the programs finish, and find a window that suffices: `window`, doubled as often as needed.

    Raises:
        TraceError: ranks wait for each other in a cycle; names ranks and nodes of a short one.
    """
    layout = layout_of(programs, instances)
    if _in_order_graph(layout).is_acyclic():
        return window
    edges = merged_edges(programs, layout)
    graph = graph_of(layout.base[-1], edges)
    if not graph.is_acyclic():
        raise TraceError(describe_cycle(programs, groups=groups, layout=layout, graph=graph))
    longest = max(len(program) for program in programs)
    while window < longest and not _windowed_graph(edges, layout, window).is_acyclic():
        window *= 2
    return window


def _in_order_graph(layout: GraphLayout) -> Graph:
    """Communications alone, each rank's strictly one after the other."""
    chains = [(vertices[:-1], vertices[1:]) for vertices in layout.comm_vertices]
    return graph_of(2 * layout.instances, [*chains, *message_edges(layout)])


def _windowed_graph(edges: Iterable[tuple[IntArray, IntArray]], layout: GraphLayout, window: int) -> Graph:
    """The merged graph and, per rank, a vertex for "the first k communications are done", which later ones wait for."""
    added: list[tuple[IntArray, IntArray]] = []
    vertices = layout.base[-1]
    for positions, comm in zip(layout.comm_positions, layout.comm_vertices, strict=True):
        prefix = np.arange(vertices, vertices + len(comm), dtype=np.int64)
        before = np.searchsorted(positions, positions - window, side="right") - 1
        held_back = np.flatnonzero(before >= 0)
        added += [(prefix[:-1], prefix[1:]), (comm, prefix), (prefix[before[held_back]], comm[held_back])]
        vertices += len(comm)
    return graph_of(vertices, [*edges, *added])


def build_workload(
    traces: Sequence[RankTrace],
    *,
    groups: Mapping[str, Sequence[int]] | None = None,
    options: TraceOptions | None = None,
    only: int | None = None,
) -> Workload:
    """Settle what a trace set means, split it into one program per rank, and prove that playing it ends.

    Args:
        traces: one per rank, in any order.
        groups: the content of a group file: name → world ranks.
        options: how to take the trace; the defaults take it as it is, strictly.
        only: the one rank that was recorded; the traces of the others are empty.

    Raises:
        TraceError: it cannot be played; names file, node or rank. docs/traces.md lists what can be wrong.
    """
    unproven = split_traces(traces, groups=groups, options=options or TraceOptions(), only=only)
    window = prove(unproven.programs, groups=unproven.groups, instances=unproven.instances)
    return replace(unproven, window=window)


def split_traces(
    traces: Sequence[RankTrace],
    *,
    groups: Mapping[str, Sequence[int]] | None,
    options: TraceOptions,
    only: int | None = None,
) -> Workload:
    """A workload without the proof: its window is 0.

    Raises:
        TraceError: as `build_workload`, but for a deadlock.
    """
    ranked = _by_rank(traces)
    table = GroupTable(world_size=len(ranked), named=groups)
    interpreter = Interpreter(len(ranked), table, options)
    found: Counter[str] = Counter()
    orders, meanings = [], []
    for trace in ranked:
        check_durations(trace)
        order = canonical_order(trace, lenient=options.lenient)
        found += oddities(trace, order)
        orders.append(order)
        meanings.append(_meanings(trace, order, interpreter))
    table.check_unused()
    pairing = pair(meanings, groups=table.groups, options=options, is_alone=only is not None)
    built = list(map(rank_program, ranked, orders, pairing.by_rank))
    found += table.warnings + interpreter.warnings + pairing.warnings
    return Workload(
        programs=[program for program, _ in built],
        groups=table.groups,
        instances=pairing.instances,
        window=0,
        warnings=dict(sorted(found.items())),
        deducted_ns=[deducted for _, deducted in built],
        dropped=sum(order.dropped for order in orders),
        only=only,
    )


def _meanings(trace: RankTrace, order: RankOrder, interpreter: Interpreter) -> list[Meaning]:
    """What the rank's network communications mean, in canonical order."""
    placed = [(int(order.position[raw.row]), raw) for raw in trace.communications if not trace.is_cpu[raw.row]]
    placed.sort(key=lambda pair: pair[0])
    return [interpreter.settle(trace, raw, position) for position, raw in placed]


def _by_rank(traces: Sequence[RankTrace]) -> list[RankTrace]:
    """The traces by rank, which must be 0 … n-1.

    Raises:
        TraceError: a rank is missing or there twice, or there is none at all.
    """
    if not traces:
        raise TraceError("contains no trace")
    ranked = sorted(traces, key=lambda trace: trace.rank)
    for previous, trace in pairwise(ranked):
        if previous.rank == trace.rank:
            raise TraceError(f"is rank {trace.rank}, as is {previous.path}", path=trace.path)
    gap = next((rank for rank, trace in enumerate(ranked) if trace.rank != rank), None)
    if gap is not None:
        others = ranked[-1].rank - len(ranked)
        more = f" and {others} other ranks" if others else ""
        raise TraceError(f"the trace has rank {ranked[-1].rank}, but no rank {gap}{more}", path=ranked[-1].path)
    return ranked
