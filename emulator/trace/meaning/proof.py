"""The proof that a run can finish, and the window of nodes a rank must be able to hold for it.

A run that gets stuck has every rank waiting for a communication. So it finishes when the merged graph has no cycle, and
when what the window keeps away from a rank is never what others wait for.

The window: a rank's nodes are delivered in canonical order, and position p while fewer than W of the positions before
it are not done. It is enough that each communication at p comes after all at positions ≤ p - W: then, of the
communications that are not done, one that waits for no other has all before p - W behind it, so it is delivered, and
so is all it depends on. (Compute nodes need no such edge: they end by themselves once the communications before them
have.) The condition is sufficient, not necessary: the window it yields may be larger than the smallest that works.

With W = 1 the condition reads: all ranks do their communications strictly in canonical order. That graph has only
communications in it, and if it has no cycle neither has any other: most traces are proven by it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from emulator.errors import TraceError
from emulator.trace.meaning.deadlock import describe_cycle
from emulator.trace.meaning.merged_graph import Graph, GraphLayout, graph_of, layout_of, merged_edges, message_edges
from emulator.trace.meaning.model import Group, IntArray, RankProgram

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
