"""From Kineto's events to a graph: CPU time between launches, tasks on streams, communication, and who waited for whom.

A CPU thread becomes a chain of segments. A segment ends where the thread launches a task, issues a communication or
begins to wait, so that everything starts as long after its cause as it did when recorded. A wait becomes a dependency
in place of time: in a call of the runtime, on the tasks that ended within it; in a gap between operators, on what ended
last within the gap on another thread (an inference, and counted as one).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from emulator.importers.losses import Fate, Losses
from emulator.importers.model import ImportedNode, Operation, Place
from emulator.importers.pytorch.kineto import DeviceTask, Event, KinetoTrace, is_wait
from emulator.importers.pytorch.streams import SLACK_US, launched_at, stream_order

SHORTEST_GAP_US = 2.0
"""Shorter gaps between operators are not looked into."""
_NS_PER_US = 1000


@dataclass(slots=True, eq=False)
class Issued:
    """A communication operation, when and where it was issued, and what executed it.

    Attributes:
        event: the call on a CPU thread.
        tasks: kernels of the device that execute it.
        execution: the library's own record of it on a CPU thread.
        consumers: events of operators that read its result.
    """

    event: Event
    operation: Operation
    tasks: Sequence[DeviceTask] = ()
    execution: Event | None = None
    consumers: Sequence[Event] = ()

    @property
    def executed(self) -> Event:
        """The record whose duration is that of the operation."""
        return self.tasks[-1].event if self.tasks else self.execution or self.event

    @property
    def blocks_until(self) -> float | None:
        """When a CPU thread that executes it itself goes on; None: it goes on at once."""
        if self.tasks or self.executed.end > self.event.end:
            return None
        return self.executed.end


@dataclass(slots=True, eq=False)
class _Draft:
    """A node before it has an id.

    Attributes:
        key: when it was issued, µs: ids are in this order.
    """

    key: float
    name: str
    place: Place
    start: float
    duration: float
    deps: list[_Draft] = field(default_factory=list)
    operation: Operation | None = None


class _Moment(NamedTuple):
    """A time on a CPU thread."""

    thread: object
    time: float


class _Cut(NamedTuple):
    """A time at which a segment of a CPU thread ends.

    Attributes:
        starts: begin when the segment that ends here is done.
        awaits: the next segment begins when they are done.
        resume: CPU time counts again from here.
    """

    time: float
    resume: float
    starts: tuple[_Draft, ...] = ()
    awaits: tuple[_Draft | _Moment, ...] = ()


class _Thread:
    """Events of a CPU thread, and the times at which it runs operators or calls of the runtime."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self.event_starts = [one.ts for one in events]
        self.starts: list[float] = []
        self.ends: list[float] = []
        self.cuts: list[_Cut] = []
        self.segments: list[_Draft] = []
        self.segment_ends: list[float] = []
        for event in events:
            if self.ends and event.ts <= self.ends[-1]:
                self.ends[-1] = max(self.ends[-1], event.end)
            else:
                self.starts.append(event.ts)
                self.ends.append(event.end)

    def last_end(self, *, after: float, until: float) -> float | None:
        """The last end of running within (after, until]."""
        at = bisect_right(self.ends, until) - 1
        return self.ends[at] if at >= 0 and self.ends[at] > after else None

    def segment_before(self, time: float) -> _Draft | None:
        """The last segment that has ended."""
        at = bisect_right(self.segment_ends, time) - 1
        return self.segments[at] if at >= 0 else None

    def name(self, start: float, end: float) -> str:
        """What takes most of a time: an operator at any depth that lies within it, else the one around it."""
        within = self.events[bisect_left(self.event_starts, start) : bisect_left(self.event_starts, end)]
        longest = max(within, key=lambda one: min(one.end, end) - one.ts, default=None)
        if longest is not None:
            return longest.name
        at = bisect_right(self.event_starts, start) - 1
        return self.events[at].name if at >= 0 and self.events[at].end > start else "CPU"


def time_line(trace: KinetoTrace, issued: Sequence[Issued], losses: Losses) -> list[ImportedNode]:
    """The nodes of a rank, by ascending id; collectives are in the order in which they were issued.

    Args:
        trace: of one rank.
        issued: every communication of the rank that is to be a node.
        losses: what is merged and guessed is counted there.
    """
    threads = _threads(trace)
    communication = {id(one): _communication(one) for one in issued}
    tasks = _tasks(trace, issued, communication, losses)
    _cut_at_launches(threads, trace, tasks, communication, issued)
    _cut_at_waits(threads, trace, tasks)
    _cut_at_gaps(threads, issued, communication, losses)
    references = [one for thread in threads.values() for one in _segments(thread)]
    for draft, moment in references:
        before = threads[moment.thread].segment_before(moment.time)
        if before is not None:
            draft.deps.append(before)
    segments = [one for thread in threads.values() for one in thread.segments]
    losses.count(Fate.MERGED, "operators into segments of CPU time", number=len(trace.operators))
    losses.count(Fate.MERGED, "calls of the device's runtime into segments of CPU time", number=len(trace.runtime))
    losses.count(Fate.MAPPED, "segments of CPU time", number=len(segments))
    devices = [one for drafts in tasks.values() for one in drafts if one.place is Place.DEVICE]
    losses.count(Fate.MAPPED, "tasks of the device", number=len(devices))
    return _numbered([*segments, *devices, *communication.values()], losses)


def _threads(trace: KinetoTrace) -> dict[object, _Thread]:
    by_thread: defaultdict[object, list[Event]] = defaultdict(list)
    for event in sorted((*trace.operators, *trace.runtime), key=lambda one: (one.ts, -one.dur)):
        by_thread[event.tid].append(event)
    return {tid: _Thread(events) for tid, events in by_thread.items()}


def _communication(one: Issued) -> _Draft:
    started, kind = one.executed, one.operation.kind.label
    key = min(map(launched_at, one.tasks), default=one.event.ts)
    return _Draft(key, kind, Place.NETWORK, started.ts, started.dur, operation=one.operation)


def _tasks(
    trace: KinetoTrace, issued: Sequence[Issued], communication: dict[int, _Draft], losses: Losses
) -> dict[int, list[_Draft]]:
    """Task → its node, or those of the communications that it executes; with the dependencies between tasks."""
    drafts: dict[int, list[_Draft]] = {}
    for one in issued:
        for task in one.tasks:
            drafts.setdefault(id(task), []).append(communication[id(one)])
    guesses = 0
    for task, before, others in stream_order(trace, [one.event for one in issued]):
        if id(task) not in drafts:
            event = task.event
            drafts[id(task)] = [_Draft(launched_at(task), event.name, Place.DEVICE, event.ts, event.dur)]
        for draft in drafts[id(task)]:
            for other in (*((before,) if before else ()), *others):
                draft.deps += drafts[id(other)]
        guesses += len(others)
    losses.count(Fate.INFERRED, "what a stream waited for on another stream", number=guesses)
    return drafts


def _cut_at_launches(
    threads: dict[object, _Thread],
    trace: KinetoTrace,
    tasks: dict[int, list[_Draft]],
    communication: dict[int, _Draft],
    issued: Sequence[Issued],
) -> None:
    for task in trace.tasks:
        if task.launch is not None and task.launch.tid in threads:
            at = task.launch.ts
            threads[task.launch.tid].cuts.append(_Cut(at, at, starts=tuple(tasks[id(task)])))
    for one in issued:
        draft, thread = communication[id(one)], threads.get(one.event.tid)
        if thread is not None and not one.tasks:
            until = one.blocks_until
            awaits = () if until is None else (draft,)
            thread.cuts.append(_Cut(one.event.ts, until or one.event.ts, starts=(draft,), awaits=awaits))
        for consumer in one.consumers:
            if consumer.tid in threads and consumer.ts + SLACK_US >= one.executed.end:
                threads[consumer.tid].cuts.append(_Cut(consumer.ts, consumer.ts, awaits=(draft,)))


def _cut_at_waits(threads: dict[object, _Thread], trace: KinetoTrace, tasks: dict[int, list[_Draft]]) -> None:
    """Calls of the runtime that wait for the device: for the last task of each stream that ended within the call."""
    streams: defaultdict[object, list[DeviceTask]] = defaultdict(list)
    for task in trace.tasks:
        streams[task.stream].append(task)
    for event in trace.runtime:
        if not is_wait(event):
            continue
        last = []
        for given in streams.values():
            launched = bisect_left(given, event.ts, key=launched_at)
            ended_by_then = bisect_right(given, event.end + SLACK_US, key=lambda one: one.event.end)
            at = min(launched, ended_by_then) - 1
            if at >= 0 and given[at].event.end > event.ts:
                last.append(given[at])
        if last:
            ended = min(event.end, max(task.event.end for task in last))
            awaits = tuple(draft for task in last for draft in tasks[id(task)])
            threads[event.tid].cuts.append(_Cut(event.ts, ended, awaits=awaits))


def _cut_at_gaps(
    threads: dict[object, _Thread], issued: Sequence[Issued], communication: dict[int, _Draft], losses: Losses
) -> None:
    """Times without operators that ended after something had ended on another thread."""
    executions = sorted(
        ((one.executed.end, communication[id(one)]) for one in issued if not one.tasks), key=lambda pair: pair[0]
    )
    execution_ends = [end for end, _ in executions]
    for tid, thread in threads.items():
        for end, start in zip([float("-inf"), *thread.ends], thread.starts, strict=False):
            if start - end <= SHORTEST_GAP_US:
                continue
            wakes: list[tuple[float, _Draft | _Moment]] = []
            at = bisect_right(execution_ends, start) - 1
            if at >= 0 and execution_ends[at] > end:
                wakes.append(executions[at])
            for other, one in threads.items():
                if other != tid and (ended := one.last_end(after=end, until=start)) is not None:
                    wakes.append((ended, _Moment(other, ended)))
            if not wakes:
                continue
            wake, cause = max(wakes, key=lambda pair: pair[0])
            thread.cuts.append(_Cut(max(end, min(wake, thread.starts[0])), wake, awaits=(cause,)))
            if isinstance(cause, _Moment):
                threads[cause.thread].cuts.append(_Cut(wake, wake))
            losses.count(Fate.INFERRED, "what a thread waited for in a gap between its operators")


def _segments(thread: _Thread) -> Iterator[tuple[_Draft, _Moment]]:
    """Fill `thread.segments`; yields the references to other threads' segments."""
    cuts = sorted(thread.cuts, key=lambda one: one.time)
    time = min(thread.starts[0], cuts[0].resume) if cuts else thread.starts[0]
    pending: list[_Draft | _Moment] = []

    def advance(until: float, *, needed: bool = False) -> Iterator[tuple[_Draft, _Moment]]:
        nonlocal time
        if until <= time and not (needed and pending):
            return
        end = max(time, until)
        draft = _Draft(time, thread.name(time, end), Place.CPU, time, end - time)
        draft.deps = [*thread.segments[-1:], *(one for one in pending if isinstance(one, _Draft))]
        yield from ((draft, one) for one in pending if isinstance(one, _Moment))
        pending.clear()
        thread.segments.append(draft)
        thread.segment_ends.append(end)
        time = end

    for cut in cuts:
        yield from advance(cut.time, needed=bool(cut.starts))
        if thread.segments:
            for draft in cut.starts:
                draft.deps.append(thread.segments[-1])
        pending += cut.awaits
        time = max(time, cut.resume)
    yield from advance(thread.ends[-1])


def _numbered(drafts: list[_Draft], losses: Losses) -> list[ImportedNode]:
    """Nodes with ids by the time of issue."""
    drafts.sort(key=lambda one: (one.key, one.place is not Place.CPU))
    ids = {id(one): number for number, one in enumerate(drafts, 1)}
    origin = min((one.start for one in drafts), default=0.0)
    late = sum(ids[id(dep)] >= number for number, one in enumerate(drafts, 1) for dep in one.deps)
    losses.count(Fate.DROPPED, "dependencies on what was issued later", number=late)
    return [
        ImportedNode(
            node_id=number,
            name=one.name,
            place=one.place,
            deps=tuple(sorted({ids[id(dep)] for dep in one.deps if ids[id(dep)] < number})),
            start_ns=round((one.start - origin) * _NS_PER_US),
            duration_ns=round(one.duration * _NS_PER_US),
            operation=one.operation,
        )
        for number, one in enumerate(drafts, 1)
    ]
