"""The merged graph: what must be done before what, over all ranks, with the members of one operation as one vertex.

Vertices, for I instances: a collective or a send is its instance number; a receive is I + its instance number, or its
instance number if the rank that sends was not recorded; other nodes follow, rank by rank, position by position
(positions of communications leave holes, which do no harm).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

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

    def components(self) -> tuple[int, VertexArray]:
        """Number of strongly connected components, and each vertex's."""
        ones = np.ones(len(self.successor), dtype=np.int8)
        matrix = csr_array((ones, self.successor, self.first), shape=(self.vertices, self.vertices))
        count, label = connected_components(matrix, directed=True, connection="strong")
        return int(count), label

    def is_acyclic(self) -> bool:
        """Whether every vertex can be done; edges from a vertex to itself never occur here."""
        return self.components()[0] == self.vertices


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
