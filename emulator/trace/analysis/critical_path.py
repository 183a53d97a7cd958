"""The longest path through the merged graph: how long a run takes at least, if nothing waits for a processor.

Compute nodes count with their duration, communications with what the caller gives them: nothing (the path of compute),
the recorded durations, or a topology's ideal times (the roofline). The resources of a rank, which serve one node at a
time, are not in it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from emulator.trace.meaning.model import IntArray, Workload
from emulator.trace.meaning.trace_graphs import layout_of, merged_graph
from emulator.units import NS_PER_US


class LateTimes(Protocol):
    """What collectives take from their last post on, if it depends on how late that is."""

    @property
    def instances(self) -> Collection[int]:
        """Those of which it depends."""
        ...

    def remaining_ns(self, instance: int, post_ns: Mapping[int, int], /) -> int:
        """Time from the last post on, for posts by rank."""
        ...


class CriticalPath:
    """Longest paths through one workload; prepared once, since the order of the graph is most of the work."""

    def __init__(self, workload: Workload) -> None:
        layout = layout_of(workload.programs, workload.instances)
        self._layout, self._programs = layout, workload.programs
        self._instances = workload.instances
        self._graph = merged_graph(workload.programs, layout)
        self._order = self._graph.order()
        self._base = list(layout.base)
        self._duration = np.zeros(self._graph.vertices, dtype=np.int64)
        for rank, program in enumerate(workload.programs):
            self._duration[layout.base[rank] : layout.base[rank + 1]] = program.duration_ns

    def length_ns(self, communication_ns: Sequence[int] | IntArray, *, late: LateTimes | None = None) -> int:
        """Nanoseconds of the longest path when instance i takes communication_ns[i] from its last post to its end.

        A receive is done when its message has arrived and it is ready itself. About 1 µs a node.

        Args:
            late: what collectives take whose members post at different times.
        """
        waits = self._waits(late.instances) if late is not None else {}
        end = [0] * (self._graph.vertices if waits else 0)
        weight = self._duration.copy()
        weight[: self._instances] = communication_ns
        first, successor = self._graph.first.data, self._graph.successor.data
        duration = weight.data
        start = [0] * self._graph.vertices
        longest = 0
        for vertex in self._order.data:
            done = start[vertex] + duration[vertex]
            if waits:
                if late is not None and (members := waits.get(vertex)):
                    posts = {rank: max([end[one] for one in before], default=0) for rank, before in members}
                    done = start[vertex] + late.remaining_ns(vertex, posts)
                end[vertex] = done
            if done > longest:
                longest = done
            for index in range(first[vertex], first[vertex + 1]):
                following = successor[index]
                if start[following] < done:
                    start[following] = done
        return longest

    def _waits(self, instances: Collection[int]) -> Mapping[int, Sequence[tuple[int, Sequence[int]]]]:
        """Instance → (rank, vertices that it waits for) of each member."""
        found: dict[int, list[tuple[int, list[int]]]] = {}
        for rank, program in enumerate(self._programs if instances else ()):
            vertex = self._layout.vertex_of_position(rank, len(program))
            last: dict[int, int] = {}
            for position, item in program.communications.items():
                if item.instance in instances:
                    deps = program.dep_position[program.dep_offset[position] : program.dep_offset[position + 1]]
                    before = vertex[deps].tolist() + ([last[item.group]] if item.group in last else [])
                    found.setdefault(item.instance, []).append((rank, before))
                if item.kind.is_collective:
                    last[item.group] = item.instance
        return found

    def steps(self, communication_ns: Sequence[int] | IntArray) -> list[PathStep]:
        """The vertices of a longest path that take time, in order; arguments as for `length_ns`."""
        weight = self._duration.copy()
        weight[: self._instances] = communication_ns
        end = np.zeros(self._graph.vertices, dtype=np.int64)
        before = np.full(self._graph.vertices, -1, dtype=np.int64)
        start, longest = [0] * self._graph.vertices, 0
        first, successor, duration = self._graph.first.data, self._graph.successor.data, weight.data
        latest = -1
        for vertex in self._order.data:
            done = start[vertex] + duration[vertex]
            end[vertex] = done
            if done > longest:
                longest, latest = done, vertex
            for index in range(first[vertex], first[vertex + 1]):
                following = successor[index]
                if start[following] < done:
                    start[following] = done
                    before[following] = vertex
        found = []
        while latest >= 0:
            if weight[latest]:
                found.append(self._step(latest, start[latest], int(end[latest])))
            latest = int(before[latest])
        return found[::-1]

    def _step(self, vertex: int, start_ns: int, end_ns: int) -> PathStep:
        if vertex < self._instances:
            return PathStep(start_ns, end_ns, instance=vertex)
        rank = bisect_right(self._base, vertex) - 1
        return PathStep(start_ns, end_ns, rank=rank, position=vertex - self._base[rank])


@dataclass(frozen=True, slots=True)
class PathStep:
    """A node on a longest path: communication `instance`, or the node at a position of a rank."""

    start_ns: int
    end_ns: int
    instance: int = -1
    rank: int = -1
    position: int = -1


def longest_path_ns(
    workload: Workload, *, communication_ns: Sequence[int] | IntArray, late: LateTimes | None = None
) -> int:
    """Nanoseconds of the longest path; `communication_ns` has one entry per instance of the workload."""
    return CriticalPath(workload).length_ns(communication_ns, late=late)


def traced_ns(workload: Workload) -> IntArray:
    """Recorded duration of each instance: int64, shape (instances,), ns.

    The shortest that one of its nodes recorded, since the others contain waiting for the last. 0 if none has any.
    """
    shortest = np.full(workload.instances, np.iinfo(np.int64).max, dtype=np.int64)
    for program in workload.programs:
        for item in program.communications.values():
            if item.traced_duration_micros:
                shortest[item.instance] = min(int(shortest[item.instance]), item.traced_duration_micros * NS_PER_US)
    shortest[shortest == np.iinfo(np.int64).max] = 0
    return shortest
