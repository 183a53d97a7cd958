"""Graphs of trace sets: the nodes of all ranks, merged.

The merged graph says what must be done before what, over all ranks, with the members of one operation as one vertex.
Vertices, for I instances: a collective or a send is its instance number; a receive is I + its instance number, or its
instance number if the rank that sends was not recorded; other nodes follow, rank by rank, position by position
(positions of communications leave holes, which do no harm).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from emulator.trace.meaning.model import CommKind, Communication, IntArray, RankProgram

VertexArray = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Graph:
    """A directed graph: the successors of vertex v are successor[first[v]:first[v + 1]]."""

    vertices: int
    first: VertexArray
    successor: VertexArray

    def successors(self, vertex: int) -> VertexArray:
        """What must wait for a vertex."""
        return self.successor[self.first[vertex] : self.first[vertex + 1]]

    def order(self) -> IntArray:
        """The vertices, each after its predecessors, without those on a cycle or behind one: int64.

        About 0.2 µs a vertex and as much an edge.
        """
        first, successor = self.first.data, self.successor.data
        counts = np.bincount(self.successor, minlength=self.vertices)
        waiting: list[int] = counts.tolist()
        done: list[int] = np.flatnonzero(counts == 0).tolist()
        for vertex in done:
            for index in range(first[vertex], first[vertex + 1]):
                following = successor[index]
                waiting[following] -= 1
                if not waiting[following]:
                    done.append(following)
        return np.array(done, dtype=np.int64)

    def is_acyclic(self) -> bool:
        """Whether every vertex can be done."""
        return len(self.order()) == self.vertices

    def components(self) -> tuple[int, IntArray]:
        """Number of strongly connected components, and each vertex's; about 1 µs a vertex.

        Source: Tarjan, Depth-First Search and Linear Graph Algorithms, SIAM J. Comput. 1 (1972); without recursion.
        """
        edge, successor = self.first.tolist(), self.successor.data  # edge: of each vertex, the next one to follow
        last = edge[1:]
        found, lowest, label = ([empty] * self.vertices for empty in (0, 0, -1))
        seen = components = 0
        unlabelled: list[int] = []
        path: list[int] = []
        for root in range(self.vertices):
            path += [root] if not found[root] else []
            while path:
                vertex = path[-1]
                if not found[vertex]:
                    seen += 1
                    found[vertex] = lowest[vertex] = seen
                    unlabelled.append(vertex)
                if edge[vertex] < last[vertex]:
                    following = successor[edge[vertex]]
                    edge[vertex] += 1
                    if not found[following]:
                        path.append(following)
                    elif label[following] < 0:
                        lowest[vertex] = min(lowest[vertex], lowest[following])
                    continue
                path.pop()
                if lowest[vertex] == found[vertex]:
                    while label[vertex] < 0:
                        label[unlabelled.pop()] = components
                    components += 1
                elif path:
                    lowest[path[-1]] = min(lowest[path[-1]], lowest[vertex])
        return components, np.array(label, dtype=np.int64)


def graph_of(vertices: int, edges: Iterable[tuple[IntArray, IntArray]]) -> Graph:
    """The graph with these (from, to) edges."""
    pairs = list(edges)
    source = np.concatenate([pair[0] for pair in pairs]) if pairs else np.zeros(0, dtype=np.int64)
    target = np.concatenate([pair[1] for pair in pairs]) if pairs else np.zeros(0, dtype=np.int64)
    first = np.zeros(vertices + 1, dtype=np.int32)
    np.cumsum(np.bincount(source, minlength=vertices), out=first[1:])
    return Graph(vertices, first, target[np.argsort(source, kind="stable")].astype(np.int32))


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """Where the nodes of a set of programs are in the graph.

    Attributes:
        base: per rank, the vertex of position 0 (for what is not a communication); last entry: number of vertices.
        comm_positions: per rank, int64 positions of its communications, ascending.
        comm_vertices: per rank, their vertices.
    """

    instances: int
    base: Sequence[int]
    comm_positions: Sequence[IntArray]
    comm_vertices: Sequence[IntArray]

    def vertex_of_position(self, rank: int, size: int) -> IntArray:
        """Vertex at each position of a rank."""
        vertex = np.arange(self.base[rank], self.base[rank] + size, dtype=np.int64)
        vertex[self.comm_positions[rank]] = self.comm_vertices[rank]
        return vertex


def sends_of(programs: Sequence[RankProgram]) -> set[int]:
    """The instances of which these programs have the send."""
    return {
        item.instance for program in programs for item in program.communications.values() if item.kind is CommKind.SEND
    }


def layout_of(programs: Sequence[RankProgram], instances: int) -> GraphLayout:
    """Number the vertices of these programs."""
    sizes = [len(program) for program in programs]
    base = (2 * instances + np.concatenate([[0], np.cumsum(sizes)])).astype(int).tolist()
    positions = [np.fromiter(program.communications, dtype=np.int64) for program in programs]
    sent = sends_of(programs)

    def vertex(item: Communication) -> int:
        return item.instance + (instances if item.kind is CommKind.RECV and item.instance in sent else 0)

    vertices = [np.array(list(map(vertex, program.communications.values())), dtype=np.int64) for program in programs]
    return GraphLayout(instances, base, positions, vertices)


def dependency_edges(programs: Sequence[RankProgram], layout: GraphLayout) -> Iterable[tuple[IntArray, IntArray]]:
    """Dependency → dependent, of all ranks."""
    for rank, program in enumerate(programs):
        vertex = layout.vertex_of_position(rank, len(program))
        owner = np.repeat(vertex, np.diff(program.dep_offset))
        yield vertex[program.dep_position], owner


def group_order_edges(programs: Sequence[RankProgram], layout: GraphLayout) -> Iterable[tuple[IntArray, IntArray]]:
    """k-th → (k + 1)-th collective of a group, as every rank posts them."""
    edges: set[tuple[int, int]] = set()
    for program in programs:
        last: dict[int, int] = {}
        for item in program.communications.values():
            if item.kind.is_collective:
                if item.group in last:
                    edges.add((last[item.group], item.instance))
                last[item.group] = item.instance
    if edges:
        source, target = np.array(sorted(edges), dtype=np.int64).T
        yield source, target


def message_edges(layout: GraphLayout) -> Iterable[tuple[IntArray, IntArray]]:
    """Send → receive."""
    for vertices in layout.comm_vertices:
        receives = vertices[vertices >= layout.instances]
        yield receives - layout.instances, receives


def merged_graph(programs: Sequence[RankProgram], layout: GraphLayout) -> Graph:
    """The merged graph of all nodes, without any window."""
    return graph_of(layout.base[-1], merged_edges(programs, layout))


def merged_edges(programs: Sequence[RankProgram], layout: GraphLayout) -> list[tuple[IntArray, IntArray]]:
    """Its edges."""
    return [
        *dependency_edges(programs, layout),
        *group_order_edges(programs, layout),
        *message_edges(layout),
    ]
