"""Which tasks of the device, and which segments of CPU threads, waited for which: order, and waits for another.

Kineto does not record which event a stream waits for. A wait is taken to be for the last task that each other stream
had been given by then, if that task had ended when the waiting one began.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emulator.annexes.importers.pytorch.kineto_events import (
    Floats,
    Integers,
    Intervals,
    KinetoEvent,
    KinetoEvents,
    Tasks,
    Thread,
)

SLACK_US = 1.0
"""Times of the host and of the device agree to this."""


class TaskStream:
    """The tasks of a stream, by launch.

    Attributes:
        rows: of its tasks.
        launched, end: of them, µs.
    """

    def __init__(self, tasks: Tasks, rows: Integers) -> None:
        self.rows = rows
        self.launched = tasks.launched[rows]
        self.end = tasks.start[rows] + tasks.duration[rows]

    def last_launched(self, until: float, *, before: int) -> int | None:
        """Position of the last task launched until then, among those of rows before one."""
        at = min(int(np.searchsorted(self.launched, until, side="right")), int(np.searchsorted(self.rows, before))) - 1
        return at if at >= 0 else None

    def last_ended(self, *, launched_before: float, ended_within: tuple[float, float]) -> int | None:
        """Row of the last task that was launched before, and that ended within; None: there is none."""
        after, until = ended_within
        at = min(np.searchsorted(self.launched, launched_before), np.searchsorted(self.end, until, side="right")) - 1
        return int(self.rows[at]) if at >= 0 and self.end[at] > after else None


def streams_of(tasks: Tasks) -> list[TaskStream]:
    """The streams, in the order of their numbers."""
    order = np.argsort(tasks.stream, kind="stable")
    numbers = np.arange(int(tasks.stream.max()) + 1 if len(tasks) else 0)
    ends = np.searchsorted(tasks.stream[order], numbers, side="right")
    return [TaskStream(tasks, rows) for rows in np.split(order, ends[:-1])] if len(numbers) else []


def previous_on_stream(tasks: Tasks) -> Integers:
    """The row of the task before each one on its stream; -1: there is none."""
    order = np.argsort(tasks.stream, kind="stable")
    previous = np.full(len(tasks), -1, dtype=np.int64)
    same = tasks.stream[order][1:] == tasks.stream[order][:-1]
    previous[order[1:][same]] = order[:-1][same]
    return previous


def waits_between_streams(
    events: KinetoEvents, streams: Sequence[TaskStream], previous: Integers, calls: Sequence[KinetoEvent]
) -> Iterator[tuple[int, int]]:
    """Row of a task that waited, and row of the one on another stream that it waited for.

    Args:
        calls: events of calls of collectives: waits within them are for the library's stream.
    """
    tasks, intervals = events.tasks, Intervals(calls)
    launched = tasks.launched
    waits = np.array([one.ts for one in events.stream_waits if intervals.around(one) is None])
    until = _last_wait(waits, since=np.where(previous >= 0, launched[previous], -np.inf), before=launched)
    for task in events.library:  # its stream waits for the one of the caller in every call
        until[task.row] = launched[task.row]
    for row in np.flatnonzero(~np.isnan(until)).tolist():
        for number, stream in enumerate(streams):
            if number != tasks.stream[row]:
                at = stream.last_launched(float(until[row]), before=row)
                if at is not None and stream.end[at] <= tasks.start[row] + SLACK_US:
                    yield row, int(stream.rows[at])


def _last_wait(waits: Floats, *, since: Floats, before: Floats) -> Floats:
    """The last wait within each [since, before); nan: none."""
    if not len(waits):
        return np.full(len(before), np.nan)
    at = np.searchsorted(waits, before) - 1
    found = waits[np.maximum(at, 0)]
    return np.where((at >= 0) & (found >= since), found, np.nan)


NOBODY = -1
_SEGMENTS_NAMED_AT_ONCE = 1 << 16


class Moment(NamedTuple):
    """A time on a CPU thread."""

    thread: int
    time: float


class Edges:
    """Dependencies between nodes, by number: which one starts after which one."""

    def __init__(self) -> None:
        self.before, self.after = array("i"), array("i")

    def add(self, *, before: int, after: int) -> None:
        """One more."""
        self.before.append(before)
        self.after.append(after)

    def extend(self, *, before: Integers, after: Integers) -> None:
        """Many more."""
        self.before.frombytes(before.astype(np.int32).tobytes())
        self.after.frombytes(after.astype(np.int32).tobytes())


class Cuts:
    """Times at which segments of a thread end, in any order."""

    def __init__(self) -> None:
        self.times, self.resumes = array("d"), array("d")
        self.starts, self.awaits = array("i"), array("i")
        self.moment_threads, self.moment_times = array("i"), array("d")

    def add(
        self, time: float, *, resume: float, starts: int = NOBODY, awaits: int = NOBODY, moment: Moment | None = None
    ) -> None:
        """Add a cut.

        Args:
            time: µs.
            resume: CPU time counts again from here, µs.
            starts: number of the node that begins when the segment that ends here is done.
            awaits, moment: the next segment begins when that node, or what the other thread did until then, is done.
        """
        self.times.append(time)
        self.resumes.append(resume)
        self.starts.append(starts)
        self.awaits.append(awaits)
        self.moment_threads.append(NOBODY if moment is None else moment.thread)
        self.moment_times.append(0.0 if moment is None else moment.time)


class ThreadSegments(NamedTuple):
    """Segments of a thread by time, µs; `waits`: number of a segment, and the moment it waits for."""

    start: Floats
    end: Floats
    waits: Sequence[tuple[int, Moment]]


class CpuThread:
    """A thread that is to be cut into segments.

    Attributes:
        run_starts, run_ends: times at which it runs operators or calls of the runtime, µs.
    """

    def __init__(self, thread: Thread) -> None:
        self._events = thread
        self.cuts = Cuts()
        reached = np.maximum.accumulate(thread.end)
        first = np.concatenate(([0], np.flatnonzero(thread.start[1:] > reached[:-1]) + 1))
        self.run_starts = thread.start[first]
        self.run_ends = reached[np.concatenate((first[1:] - 1, [len(reached) - 1]))]

    def last_ends(self, *, after: Floats, until: Floats) -> Floats:
        """The last end of running within each (after, until]; -inf: none."""
        at = np.searchsorted(self.run_ends, until, side="right") - 1
        found = self.run_ends[np.maximum(at, 0)]
        return np.where((at >= 0) & (found > after), found, -np.inf)

    def segments(self, first: int, edges: Edges) -> ThreadSegments:
        """Cut the thread.

        Args:
            first: number of the first segment.
            edges: dependencies are added there.
        """
        cuts, last_end = self.cuts, float(self.run_ends[-1])
        starts, ends = array("d"), array("d")
        waits: list[tuple[int, Moment]] = []
        pending: list[int] = []
        moments: list[Moment] = []
        order = np.argsort(np.frombuffer(cuts.times), kind="stable")
        time = float(self.run_starts[0])
        if len(order):
            time = min(time, cuts.resumes[order[0]])

        def close(until: float) -> None:
            nonlocal time
            number = first + len(starts)
            starts.append(time)
            ends.append(until)
            if len(starts) > 1:
                edges.add(before=number - 1, after=number)
            for one in pending:
                edges.add(before=one, after=number)
            waits.extend((number, one) for one in moments)
            pending.clear()
            moments.clear()
            time = until

        for at in order:
            until, started = cuts.times[at], cuts.starts[at]
            if until > time or (started >= 0 and (pending or moments)):
                close(max(time, until))
            if started >= 0 and starts:
                edges.add(before=first + len(starts) - 1, after=started)
            if cuts.awaits[at] >= 0:
                pending.append(cuts.awaits[at])
            if cuts.moment_threads[at] >= 0:
                moments.append(Moment(cuts.moment_threads[at], cuts.moment_times[at]))
            time = max(time, cuts.resumes[at])
        if last_end > time:
            close(last_end)
        return ThreadSegments(np.frombuffer(starts), np.frombuffer(ends), waits)

    def names(self, segments: ThreadSegments, *, otherwise: int) -> npt.NDArray[np.int32]:
        """What takes most of each segment: an event at any depth that begins within it, else the one around it."""
        blocks = [np.empty(0, dtype=np.int32)]
        for begin in range(0, len(segments.start), _SEGMENTS_NAMED_AT_ONCE):
            rows = slice(begin, begin + _SEGMENTS_NAMED_AT_ONCE)
            blocks.append(self._names(segments.start[rows], segments.end[rows], otherwise))
        return np.concatenate(blocks)

    def _names(self, start: Floats, end: Floats, otherwise: int) -> npt.NDArray[np.int32]:
        events = self._events
        low = np.searchsorted(events.start, start)
        high = np.searchsorted(events.start, end)
        around = np.searchsorted(events.start, start, side="right") - 1
        found = np.where((around >= 0) & (events.end[around] > start), events.name[around], np.int32(otherwise))
        filled = np.flatnonzero(high > low)
        if len(filled):
            # Segments are disjoint and ascending, so their events are too.
            counts = high[filled] - low[filled]
            begins = np.cumsum(counts) - counts
            event = np.repeat(low[filled] - begins, counts) + np.arange(counts.sum())
            within = np.minimum(events.end[event], np.repeat(end[filled], counts)) - events.start[event]
            longest = np.repeat(np.maximum.reduceat(within, begins), counts)
            first = np.minimum.reduceat(np.where(within == longest, event, np.iinfo(np.int64).max), begins)
            found[filled] = events.name[first]
        return found.astype(np.int32)
