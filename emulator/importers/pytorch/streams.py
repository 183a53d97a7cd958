"""Which tasks of the device waited for which: order on a stream, and waits of one stream for another.

Kineto does not record which event a stream waits for. A wait is taken to be for the last task that each other stream
had been given by then, if that task had ended when the waiting one began.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

from emulator.importers.pytorch.intervals import Intervals
from emulator.importers.pytorch.kineto import DeviceTask, Event, KinetoTrace, is_library_kernel

SLACK_US = 1.0
"""Times of the host and of the device agree to this."""
_WAIT = "StreamWaitEvent"


def stream_order(
    trace: KinetoTrace, calls: Sequence[Event]
) -> Iterator[tuple[DeviceTask, DeviceTask | None, list[DeviceTask]]]:
    """Every task in the order of launches, the one before it on its stream, and those on other streams it waited for.

    Args:
        trace: of one rank.
        calls: events of calls of collectives: waits within them are for the library's stream.
    """
    waits = [one for one in trace.runtime if one.name.endswith(_WAIT)]
    intervals = Intervals(calls)
    within = {id(one) for one in waits if intervals.around(one) is not None}
    starts = [one.ts for one in waits]
    last: dict[object, DeviceTask] = {}
    given: defaultdict[object, list[DeviceTask]] = defaultdict(list)
    for task in trace.tasks:
        launched = launched_at(task)
        before = last.get(task.stream)
        since = launched_at(before) if before is not None else float("-inf")
        between = waits[bisect_left(starts, since) : bisect_left(starts, launched)]
        others: list[DeviceTask] = []
        if is_library_kernel(task.event):  # its stream waits for the one of the caller in every call
            until: float | None = launched
        else:
            until = max((one.ts for one in between if id(one) not in within), default=None)
        if until is not None:
            for stream, tasks in given.items():
                if stream != task.stream:
                    found = _last_launched(tasks, until)
                    if found is not None and found.event.end <= task.event.ts + SLACK_US:
                        others.append(found)
        yield task, before, others
        last[task.stream] = task
        given[task.stream].append(task)


def launched_at(task: DeviceTask) -> float:
    """When a task was given to its stream, µs."""
    return task.launch.ts if task.launch is not None else task.event.ts


def _last_launched(tasks: Sequence[DeviceTask], until: float) -> DeviceTask | None:
    at = bisect_right(tasks, until, key=launched_at) - 1
    return tasks[at] if at >= 0 else None
