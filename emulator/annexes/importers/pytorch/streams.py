"""Which tasks of the device waited for which: order on a stream, and waits of one stream for another.

Kineto does not record which event a stream waits for. A wait is taken to be for the last task that each other stream
had been given by then, if that task had ended when the waiting one began.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from emulator.annexes.importers.pytorch.intervals import Intervals
from emulator.annexes.importers.pytorch.kineto_events import (
    STREAM_WAIT,
    Floats,
    Integers,
    KinetoEvent,
    KinetoEvents,
    Tasks,
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
    stream_waits = (one for one in events.waits if one.name.endswith(STREAM_WAIT))
    waits = np.array([one.ts for one in stream_waits if intervals.around(one) is None])
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
