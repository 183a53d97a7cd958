"""The canonical order of one rank: topological over all its dependencies, smallest id first among ready nodes.

It is what makes ranks agree which collective is the k-th of a group, so it depends on ids and dependencies alone, never
on the order of nodes in the file. When every dependency has a smaller id than its dependent it is simply ascending id,
which numpy does; otherwise only nodes that some larger id holds back pass through a heap.

The order of communications is the rank's dependencies with everything between communications left out.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from emulator.errors import TraceError
from emulator.trace.meaning.model import IntArray, RankProgram, RankTrace
from emulator.trace.meaning.trace_graphs import graph_of

SHOWN_NODES = 8
"""How many nodes of a cycle an error prints."""


@dataclass(frozen=True, slots=True)
class RankOrder:
    """A rank's nodes in canonical order, and its dependencies as positions in it.

    Attributes:
        order: int64, shape (n,): row at each position.
        position: int64, shape (n,): position of each row.
        dep_offset, dep_position: as RankProgram has them: per position, ascending, distinct, all smaller.
        dropped: dangling dependencies left out.
        opened: control dependencies left out because they closed a cycle.
        duplicates: dependencies given more than once in the same list.
    """

    order: IntArray
    position: IntArray
    dep_offset: IntArray
    dep_position: IntArray
    dropped: int
    opened: int
    duplicates: int


@dataclass(frozen=True, slots=True)
class _Edges:
    """Dependencies that exist; `owner` and `needed` are places in ascending id order, shape (m,)."""

    by_id: IntArray
    owner: IntArray
    needed: IntArray
    is_ctrl: npt.NDArray[np.bool_]
    dropped: int


def canonical_order(trace: RankTrace, *, lenient: bool = False) -> RankOrder:
    """Order a rank's nodes; about 0.3 µs a node where ids ascend along dependencies, 2 µs where they do not.

    Args:
        lenient: leave out dependencies on nodes that do not exist, and control dependencies that are part of a cycle
            (old converters of PyTorch traces wrote such; the data dependencies say what matters).

    Raises:
        TraceError: such a dependency, unless `lenient`; data dependencies in a cycle.
    """
    edges = _edges(trace, lenient=lenient)
    found = len(edges.owner)
    count = len(trace)
    places = np.arange(count, dtype=np.int64)
    if bool(np.any(edges.needed >= edges.owner)):
        edges = _without_cycles(edges, count) if lenient else edges
        places = _smallest_first(trace, edges)
    place_position = np.empty(count, dtype=np.int64)
    place_position[places] = np.arange(count, dtype=np.int64)
    order = edges.by_id[places]
    position = np.empty(count, dtype=np.int64)
    position[order] = np.arange(count, dtype=np.int64)
    offset, needed = _distinct(place_position[edges.owner], place_position[edges.needed], count)
    duplicates = 0 if len(needed) == len(edges.needed) else _duplicates(edges, count)
    return RankOrder(order, position, offset, needed, edges.dropped, found - len(edges.owner), duplicates)


def left_dependencies(trace: RankTrace) -> dict[int, tuple[list[int], list[int]]]:
    """The nodes of which a lenient order leaves out dependencies: id → control and data dependencies that are left."""
    edges = _edges(trace, lenient=True)
    kept = _without_cycles(edges, len(trace)) if bool(np.any(edges.needed >= edges.owner)) else edges
    ids = trace.node_id[kept.by_id]
    counts = np.bincount(kept.owner, minlength=len(trace))
    lacking = np.flatnonzero(counts != np.diff(trace.dep_offset)[kept.by_id])
    found: dict[int, tuple[list[int], list[int]]] = {int(ids[place]): ([], []) for place in lacking}
    of_these = np.isin(kept.owner, lacking)
    for owner, needed, is_ctrl in zip(
        kept.owner[of_these].tolist(), kept.needed[of_these].tolist(), kept.is_ctrl[of_these].tolist(), strict=True
    ):
        found[int(ids[owner])][not is_ctrl].append(int(ids[needed]))
    return found


def _edges(trace: RankTrace, *, lenient: bool) -> _Edges:
    by_id = np.argsort(trace.node_id, kind="stable").astype(np.int64, copy=False)
    sorted_ids = trace.node_id[by_id]
    needed = np.searchsorted(sorted_ids, trace.dep_id).astype(np.int64, copy=False)
    per_row = np.diff(trace.dep_offset)
    row = np.repeat(np.arange(len(trace), dtype=np.int64), per_row)
    exists = sorted_ids[np.minimum(needed, len(trace) - 1)] == trace.dep_id
    is_ctrl = np.arange(len(row)) - trace.dep_offset[row] < trace.ctrl_count[row]
    dropped = len(row) - int(np.count_nonzero(exists))
    if dropped:
        if not lenient:
            raise _dangling(trace, row, exists)
        row, needed, is_ctrl = row[exists], needed[exists], is_ctrl[exists]
    place_of_row = np.empty(len(trace), dtype=np.int64)
    place_of_row[by_id] = np.arange(len(trace), dtype=np.int64)
    return _Edges(by_id, place_of_row[row], needed, is_ctrl, dropped)


def _dangling(trace: RankTrace, row: IntArray, exists: npt.NDArray[np.bool_]) -> TraceError:
    first = int(np.flatnonzero(~exists)[0])
    missing = int(np.count_nonzero(~exists))
    return TraceError(
        f"depends on node {int(trace.dep_id[first])}, which is not in the file "
        f"({missing} such {'dependency' if missing == 1 else 'dependencies'} in it): the file is incomplete, "
        "or give --lenient to drop them",
        path=trace.path,
        node=int(trace.node_id[row[first]]),
    )


def _without_cycles(edges: _Edges, count: int) -> _Edges:
    """Without the control dependencies both ends of which are in one cycle of dependencies."""
    graph = graph_of(count, [(edges.needed, edges.owner)])
    if graph.is_acyclic():
        return edges
    _, label = graph.components()
    keep = (label[edges.owner] != label[edges.needed]) | ~edges.is_ctrl
    return replace(edges, owner=edges.owner[keep], needed=edges.needed[keep], is_ctrl=edges.is_ctrl[keep])


def _distinct(row: IntArray, column: IntArray, count: int) -> tuple[IntArray, IntArray]:
    """Compressed rows of distinct (row, column) pairs: where each row begins, and its columns, ascending."""
    pairs = row * count + column
    if not bool(np.all(pairs[1:] > pairs[:-1])):  # mostly they are sorted
        pairs.sort()
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
    offset = np.searchsorted(pairs, np.arange(count + 1, dtype=np.int64) * count)
    return offset, pairs - np.repeat(np.arange(count, dtype=np.int64) * count, np.diff(offset))


def _duplicates(edges: _Edges, count: int) -> int:
    """How many dependencies are given again in the same list."""
    key = np.sort((edges.owner * 2 + edges.is_ctrl) * count + edges.needed)
    return int(np.count_nonzero(key[1:] == key[:-1]))


def _smallest_first(trace: RankTrace, edges: _Edges) -> IntArray:
    """Kahn's algorithm with the smallest place first: a pointer walks up the places; only the ones it had to pass by,
    and which are therefore smaller than all it has yet to reach, go through the heap when they become ready."""
    count = len(trace)
    offset, needed = _distinct(edges.owner, edges.needed, count)
    waiting: list[int] = np.diff(offset).tolist()
    first, dependents = (column.tolist() for column in _distinct(edges.needed, edges.owner, count))
    late: list[int] = []
    result: list[int] = []
    pop, push, emit = heapq.heappop, heapq.heappush, result.append
    reached = 0
    while late or reached < count:
        if late:
            place = pop(late)
        else:
            place = reached
            reached += 1
            if waiting[place]:
                continue
        emit(place)
        for index in range(first[place], first[place + 1]):
            dependent = dependents[index]
            waiting[dependent] -= 1
            if dependent < reached and not waiting[dependent]:
                push(late, dependent)
    if len(result) < count:
        raise _circular(trace, edges.by_id, offset, needed, result)
    return np.array(result, dtype=np.int64)


def _circular(trace: RankTrace, by_id: IntArray, offset: IntArray, needed: IntArray, ordered: list[int]) -> TraceError:
    is_left = np.ones(len(by_id), dtype=np.bool_)
    is_left[ordered] = False

    def dependencies(place: int) -> list[int]:
        found = needed[offset[place] : offset[place + 1]]
        return [int(other) for other in found[is_left[found]]]

    on_cycle = _walk_into_cycle(int(np.flatnonzero(is_left)[0]), dependencies)
    cycle = short_cycle([on_cycle], dependencies)
    ids = [int(trace.node_id[by_id[place]]) for place in cycle]
    shown = " → ".join(str(node) for node in [*ids, ids[0]][: SHOWN_NODES + 1])
    rest = "" if len(ids) <= SHOWN_NODES else f" → … ({len(ids)} nodes)"
    return TraceError(
        f"dependencies form a cycle, so none of these nodes can start: {shown}{rest}", path=trace.path, node=ids[0]
    )


def _walk_into_cycle(place: int, dependencies: Callable[[int], list[int]]) -> int:
    """Every node left over has a dependency left over: following the first one must come back."""
    seen: set[int] = set()
    while place not in seen:
        seen.add(place)
        place = dependencies(place)[0]
    return place


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


Latest = frozenset[int]
"""Communications none of which waits for another one of them."""
_NONE: Latest = frozenset()


def communication_dependencies(program: RankProgram) -> list[tuple[int, ...]]:
    """What each communication waits for, in canonical order.

    Communications are numbered in that order, from 0. B waits for A if a path of dependencies leads from A to B, and no
    path from A to B passes another communication: those before A follow from it. So the result says of any two
    communications whether one must be done before the other, with the fewest dependencies.

    Returns:
        For each communication the numbers of those it waits for, ascending; all smaller than its own.
    """
    needed = program.dep_position.tolist()
    reached: list[Latest] = []
    before: list[int] = []
    found: list[tuple[int, ...]] = []
    for position, (first, end) in enumerate(pairwise(program.dep_offset.tolist())):
        latest = _latest([reached[other] for other in needed[first:end]], before)
        if position in program.communications:
            reached.append(frozenset((len(found),)))
            before.append(_all_before(latest, before) | sum(1 << one for one in latest))
            found.append(tuple(sorted(latest)))
        else:
            reached.append(latest)
    return found


def _latest(sets: Sequence[Latest], before: Sequence[int]) -> Latest:
    """The latest of several sets; `before` has for each communication those that must be done before it, as bits."""
    if not sets:
        return _NONE
    largest = max(sets, key=len)
    if all(one <= largest for one in sets):
        return largest  # shared, not copied: most nodes have one dependency
    union = largest.union(*sets)
    implied = _all_before(union, before)
    return frozenset(one for one in union if not implied >> one & 1)


def _all_before(communications: Latest, before: Sequence[int]) -> int:
    bits = 0
    for one in communications:
        bits |= before[one]
    return bits
