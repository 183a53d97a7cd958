"""From Kineto's events to a graph: CPU time between launches, tasks on streams, communication, and who waited for whom.

A CPU thread becomes a chain of segments. A segment ends where the thread launches a task, issues a communication or
begins to wait, so that everything starts as long after its cause as it did when recorded. A wait becomes a dependency
in place of time: in a call of the runtime, on the tasks that ended within it; in a gap between operators, on what ended
last within the gap on another thread (an inference, and counted as one).

While the graph is built, nodes have numbers: the rows of tasks first, then communications, then segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emulator.annexes.importers.model import Fate, Losses, RecordedOperation
from emulator.annexes.importers.pytorch.kineto import KinetoTrace
from emulator.annexes.importers.pytorch.kineto_events import Floats, Integers, KinetoEvent, LibraryTask
from emulator.annexes.importers.pytorch.node_table import CPU, DEVICE, NETWORK, NodeColumns, NodeTable
from emulator.annexes.importers.pytorch.streams import (
    SLACK_US,
    CpuThread,
    Edges,
    Moment,
    ThreadSegments,
    previous_on_stream,
    streams_of,
    waits_between_streams,
)

SHORTEST_GAP_US = 2.0
"""Shorter gaps between operators are not looked into."""
_NS_PER_US = 1000
_NOTHING_RECORDED = "CPU"
"""Name of a segment in which nothing was recorded."""
_HALF = 32  # bits of a node's number

Numbers = npt.NDArray[np.int8]


@dataclass(slots=True, eq=False)
class IssuedOperation:
    """A communication operation, when and where it was issued, and what executed it.

    Attributes:
        event: the call on a CPU thread.
        tasks: kernels of the device that execute it.
        execution: the library's own record of it on a CPU thread.
        consumers: events of operators that read its result.
    """

    event: KinetoEvent
    operation: RecordedOperation
    tasks: Sequence[LibraryTask] = ()
    execution: KinetoEvent | None = None
    consumers: Sequence[KinetoEvent] = ()

    @property
    def executed(self) -> KinetoEvent:
        """The record whose duration is that of the operation."""
        return self.tasks[-1].event if self.tasks else self.execution or self.event

    @property
    def blocks_until(self) -> float | None:
        """When a CPU thread that executes it itself goes on; None: it goes on at once."""
        if self.tasks or self.executed.end > self.event.end:
            return None
        return self.executed.end

    @property
    def issued_at(self) -> float:
        """When its kernel was launched, or it was called, µs."""
        given = ((one.launch or one.event).ts for one in self.tasks)
        return min(given, default=self.event.ts)


def time_line(trace: KinetoTrace, issued: Sequence[IssuedOperation], losses: Losses) -> NodeTable:
    """The nodes of a rank; collectives are in the order in which they were issued.

    Args:
        trace: of one rank; the events of its threads are used up.
        issued: every communication of the rank that is to be a node.
    """
    graph = _Graph(trace, issued, losses)
    graph.order_tasks()
    graph.cut_at_launches()
    graph.cut_at_waits()
    graph.cut_at_gaps()
    return graph.finish()


class _Part(NamedTuple):
    """The segments of a thread: the number of the first one, and the positions of their names."""

    first: int
    segments: ThreadSegments
    name: npt.NDArray[np.int32]


class _Graph:
    def __init__(self, trace: KinetoTrace, issued: Sequence[IssuedOperation], losses: Losses) -> None:
        self._trace, self._issued, self._losses = trace, issued, losses
        self._events = trace.events
        self._tasks = trace.events.tasks
        self._tids = [one.tid for one in trace.events.threads]
        self._thread_of = {tid: number for number, tid in enumerate(self._tids)}
        self._threads = []
        while trace.events.threads:
            self._threads.append(CpuThread(trace.events.threads.pop(0)))
        self._streams = streams_of(self._tasks)
        self._edges = Edges()
        self._executing: dict[int, list[int]] = {}
        for number, one in enumerate(issued, len(self._tasks)):
            for task in one.tasks:
                self._executing.setdefault(task.row, []).append(number)

    def _nodes(self, row: int) -> Sequence[int]:
        """The node of a task, or those of the communications that it executes."""
        return self._executing.get(row, (row,))

    def order_tasks(self) -> None:
        """Dependencies between tasks: on their stream, and on others."""
        previous = previous_on_stream(self._tasks)
        pairs = np.flatnonzero(previous >= 0)
        executing = list(self._executing)
        is_plain = ~(np.isin(pairs, executing) | np.isin(previous[pairs], executing))
        self._edges.extend(before=previous[pairs[is_plain]], after=pairs[is_plain])
        others = [(row, int(previous[row])) for row in pairs[~is_plain].tolist()]
        calls = [one.event for one in self._issued]
        waits = list(waits_between_streams(self._events, self._streams, previous, calls))
        for row, before in (*others, *waits):
            for after in self._nodes(row):
                for one in self._nodes(before):
                    self._edges.add(before=one, after=after)
        if waits:
            where = self._trace.where(self._task_event(waits[0][0]))
            self._losses.count(Fate.INFERRED, "what a stream waited for on another stream", where, number=len(waits))

    def _task_event(self, row: int) -> KinetoEvent:
        name = self._events.names[self._tasks.name[row]]
        return KinetoEvent(name, None, float(self._tasks.start[row]), float(self._tasks.duration[row]))

    def cut_at_launches(self) -> None:
        """Segments end where something is given to a stream or to the library."""
        tasks = self._tasks
        for row in np.flatnonzero(tasks.thread >= 0).tolist():
            at, cuts = float(tasks.launch[row]), self._threads[tasks.thread[row]].cuts
            for node in self._nodes(row):
                cuts.add(at, resume=at, starts=node)
        for number, one in enumerate(self._issued, len(tasks)):
            thread = self._thread_of.get(one.event.tid)
            if thread is not None and not one.tasks:
                until = one.blocks_until
                awaits = -1 if until is None else number
                resume = one.event.ts if until is None else until
                self._threads[thread].cuts.add(one.event.ts, resume=resume, starts=number, awaits=awaits)
            for consumer in one.consumers:
                thread = self._thread_of.get(consumer.tid)
                if thread is not None and consumer.ts + SLACK_US >= one.executed.end:
                    self._threads[thread].cuts.add(consumer.ts, resume=consumer.ts, awaits=number)

    def cut_at_waits(self) -> None:
        """Calls of the runtime that wait for the device: for the last task of each stream that ended meanwhile."""
        ends = self._tasks.start + self._tasks.duration
        for event in self._events.waits:
            within = event.ts, event.end + SLACK_US
            found = (one.last_ended(launched_before=event.ts, ended_within=within) for one in self._streams)
            rows = [row for row in found if row is not None]
            if rows:
                resume = min(event.end, float(ends[rows].max()))
                cuts = self._threads[self._thread_of[event.tid]].cuts
                for row in rows:
                    for node in self._nodes(row):
                        cuts.add(event.ts, resume=resume, awaits=node)

    def cut_at_gaps(self) -> None:
        """Times without operators that ended after something had ended on another thread."""
        executions = sorted(
            (one.executed.end, number) for number, one in enumerate(self._issued, len(self._tasks)) if not one.tasks
        )
        execution_ends = np.array([end for end, _ in executions])
        for number, thread in enumerate(self._threads):
            gap_start = np.concatenate(([-np.inf], thread.run_ends[:-1]))
            is_gap = thread.run_starts - gap_start > SHORTEST_GAP_US
            begin, end = gap_start[is_gap], thread.run_starts[is_gap]
            wake, cause = self._last_execution(execution_ends, begin, end)
            for other, one in enumerate(self._threads):
                if other != number:
                    ended = one.last_ends(after=begin, until=end)
                    cause[ended > wake] = -1 - other
                    wake = np.maximum(wake, ended)
            found = np.flatnonzero(np.isfinite(wake))
            latest = float(thread.run_starts[0])
            for at in found.tolist():
                self._cut_at_gap(
                    number,
                    float(max(begin[at], min(wake[at], latest))),
                    float(wake[at]),
                    int(cause[at]),
                    executions,
                )
            if len(found):
                where = f"{self._trace.name}, thread {self._tids[number]} at {wake[found[0]]:.3f} us"
                what = "what a thread waited for in a gap between its operators"
                self._losses.count(Fate.INFERRED, what, where, number=len(found))

    def _last_execution(self, ends: Floats, begin: Floats, end: Floats) -> tuple[Floats, Integers]:
        """The last end of an execution by the library within each gap, and its position; -inf: none."""
        if not len(ends):
            return np.full(len(begin), -np.inf), np.zeros(len(begin), dtype=np.int64)
        at = np.maximum(np.searchsorted(ends, end, side="right") - 1, 0)
        return np.where((ends[at] > begin) & (ends[at] <= end), ends[at], -np.inf), at

    def _cut_at_gap(
        self, thread: int, time: float, wake: float, cause: int, executions: Sequence[tuple[float, int]]
    ) -> None:
        if cause >= 0:
            self._threads[thread].cuts.add(time, resume=wake, awaits=executions[cause][1])
            return
        other = -1 - cause
        self._threads[thread].cuts.add(time, resume=wake, moment=Moment(other, wake))
        self._threads[other].cuts.add(wake, resume=wake)

    def finish(self) -> NodeTable:
        """Cut the threads, and put all nodes in the order of their issue."""
        first = len(self._tasks) + len(self._issued)
        parts: list[_Part] = []
        while self._threads:  # their events are the largest part of the memory
            thread = self._threads.pop(0)
            segments = thread.segments(first, self._edges)
            parts.append(_Part(first, segments, thread.names(segments, otherwise=len(self._events.names))))
            first += len(segments.start)
        for part in parts:
            for number, moment in part.segments.waits:
                waited_for = parts[moment.thread]
                at = int(np.searchsorted(waited_for.segments.end, moment.time, side="right")) - 1
                if at >= 0:
                    self._edges.add(before=waited_for.first + at, after=number)
        self._count(first - len(self._tasks) - len(self._issued))
        return self._numbered(parts)

    def _count(self, segments: int) -> None:
        losses, name = self._losses, self._trace.name
        losses.count(Fate.MERGED, "operators into segments of CPU time", name, number=self._events.operators)
        what = "calls of the device's runtime into segments of CPU time"
        losses.count(Fate.MERGED, what, name, number=self._events.runtime)
        losses.count(Fate.MAPPED, "segments of CPU time", name, number=segments)
        losses.count(Fate.MAPPED, "tasks of the device", name, number=len(self._tasks) - len(self._executing))

    def _numbered(self, parts: Sequence[_Part]) -> NodeTable:
        """All nodes by their time of issue."""
        tasks, issued, segments = self._tasks, self._issued, [one.segments for one in parts]
        executed = [one.executed for one in issued]
        counts = [len(tasks), len(issued), sum(len(one.start) for one in segments)]
        place = np.repeat(np.array([DEVICE, NETWORK, CPU], dtype=np.int8), counts)
        segment_start = [one.start for one in segments]
        order = self._order(place, np.concatenate([tasks.launched, [one.issued_at for one in issued], *segment_start]))
        number = np.zeros(len(place), dtype=np.int32)
        number[order] = np.arange(1, len(order) + 1, dtype=np.int32)
        dep_end, dep = self._dependencies(number, len(order))
        start = np.concatenate([tasks.start, [one.ts for one in executed], *segment_start])[order]
        segment_duration = [one.end - one.start for one in segments]
        duration = np.concatenate([tasks.duration, [one.dur for one in executed], *segment_duration])[order]
        names, labels = self._names()
        columns = NodeColumns(
            names=names,
            start_ns=_nanoseconds(start - (start.min() if len(start) else 0.0)),
            duration_ns=_nanoseconds(duration),
            name=np.concatenate([tasks.name, labels, *(one.name for one in parts)])[order],
            place=place[order],
            dep_end=dep_end,
            dep=dep,
        )
        operations = [issued[at - len(tasks)].operation for at in order[place[order] == NETWORK].tolist()]
        return NodeTable(columns, operations, size=len(order))

    def _order(self, place: Numbers, issued_at: Floats) -> Integers:
        """Nodes by their time of issue, without tasks that are communication; at the same time CPU segments first."""
        tie = np.array([CPU, DEVICE, NETWORK], dtype=np.int8).argsort()[place]
        order = np.lexsort((tie, issued_at))
        is_kept = np.ones(len(place), dtype=np.bool_)
        is_kept[list(self._executing)] = False
        return order[is_kept[order]]

    def _names(self) -> tuple[list[str], npt.NDArray[np.int32]]:
        """All names: of events, of a segment in which nothing was recorded, of communications; those of the latter."""
        names = [*self._events.names, _NOTHING_RECORDED]
        number_of: dict[str, int] = {}
        for one in self._issued:
            number_of.setdefault(one.operation.kind.label, len(names) + len(number_of))
        labels = np.array([number_of[one.operation.kind.label] for one in self._issued], dtype=np.int32)
        return [*names, *number_of], labels

    def _dependencies(self, number: npt.NDArray[np.int32], nodes: int) -> tuple[Integers, npt.NDArray[np.int32]]:
        """Dependencies of all nodes by ascending ids: their ends, and the ids."""
        before = number[np.frombuffer(self._edges.before, dtype=np.int32)]
        after = number[np.frombuffer(self._edges.after, dtype=np.int32)]
        is_early = before < after
        late = len(before) - int(np.count_nonzero(is_early))
        self._losses.count(Fate.DROPPED, "dependencies on what was issued later", self._trace.name, number=late)
        pairs = after[is_early].astype(np.int64)
        pairs <<= _HALF
        pairs |= before[is_early]
        pairs.sort()
        pairs = pairs[np.concatenate(([True], pairs[1:] != pairs[:-1]))[: len(pairs)]]
        ends = np.searchsorted(pairs, np.arange(2, nodes + 2, dtype=np.int64) << _HALF)
        return ends.astype(np.int64), (pairs & ((1 << _HALF) - 1)).astype(np.int32)


def _nanoseconds(micros: Floats) -> Integers:
    return np.rint(micros * _NS_PER_US).astype(np.int64)
