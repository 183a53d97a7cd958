"""The events of a Kineto trace as columns, a file at a time: of most of them only names and times are kept."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from itertools import accumulate
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from emulator.annexes.importers.model import Fate
from emulator.annexes.importers.pytorch.call import (
    CALL,
    DISPATCHED,
    GROUP_NOTE,
    LATEST_US,
    LIBRARY,
    is_library_kernel,
    is_other_communication,
)

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_RUNTIME = frozenset({"cuda_runtime", "cuda_driver", "hip_runtime", "privateuse1_runtime", "xpu_runtime"})
_WITHOUT_EFFECT = frozenset({"Trace"})
"""Categories that carry nothing to play: how long the profiler recorded."""
_WAIT = re.compile(
    r"(?:cuda|cu|hip|musa|tops)(?:(?P<host>(?:Stream|Device|Event|Ctx|Thread)Synchronize|MemcpyWithStream)"
    r"|StreamWaitEvent)(?:_ptsz|_ptds|_spt)?"
)
"""Calls of the runtime that wait for the device, or make a stream wait; the ends are of a default stream per thread."""
_LIKE_WAIT = re.compile("synchronize|wait_?(?:event|stream)", re.IGNORECASE)
_Wait = Enum("_Wait", ["HOST", "STREAM", "UNKNOWN"])
_LARGEST_NUMBER = 1 << 62
_NONE = -1


class RawEvent(msgspec.Struct, gc=False):
    """An event as the document has it; of `ph` X: complete, with a duration."""

    ph: str = ""
    cat: str | None = None
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Annotated[float, Meta(ge=-LATEST_US, le=LATEST_US)] = 0.0
    dur: Annotated[float, Meta(ge=0, le=LATEST_US)] = 0.0
    args: msgspec.Raw = msgspec.Raw(b"{}")


@dataclass(slots=True, eq=False)
class KinetoEvent:
    """An event of which all is kept; times in µs."""

    name: str
    tid: int | str | None
    ts: float
    dur: float
    args: dict[str, Any] = field(default_factory=dict)
    is_operator: bool = False

    @property
    def end(self) -> float:
        """µs."""
        return self.ts + self.dur


class _DeviceArguments(msgspec.Struct, gc=False):
    correlation: Any = None
    device: Any = None
    stream: Any = None


class _OperatorArguments(msgspec.Struct, gc=False):
    number: Any = msgspec.field(default=None, name="Record function id")


@dataclass(frozen=True, slots=True)
class Thread:
    """Operators and calls of the runtime of a CPU thread, by start, outer ones first; µs.

    Attributes:
        name: int32, position in the names of the trace.
    """

    tid: int | str | None
    start: Floats
    end: Floats
    name: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Tasks:
    """Kernels and copies, by launch; µs.

    Attributes:
        name, stream: int32, positions in names and streams.
        launch: start of the call of the runtime that launched the task; nan: that is not recorded.
        thread: int32, position in the threads of the trace of that call; -1: none.
    """

    start: Floats
    duration: Floats
    name: npt.NDArray[np.int32]
    stream: npt.NDArray[np.int32]
    launch: Floats
    thread: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.start)

    @property
    def launched(self) -> Floats:
        """When each task was given to its stream."""
        return np.where(np.isnan(self.launch), self.start, self.launch)


class LibraryTask(NamedTuple):
    """A kernel of the collective library; `row` in the tasks, and its launch, None if that is not recorded."""

    row: int
    event: KinetoEvent
    launch: KinetoEvent | None


@dataclass(frozen=True, slots=True)
class KinetoEvents:
    """All that is kept of the events of a process.

    Attributes:
        names: of threads' events and of tasks.
        operators, runtime: number of events.
        calls: operators of collectives, by start.
        notes: annotations of libraries, and those that name a process group, by start.
        waits: calls of the runtime that wait for the device, by start.
        stream_waits: those that make a stream wait for another, by start.
        recorded: record function id → operator, of those asked for.
        doubts: fate and what for, of events that are not played as what they may be → their number, and the first.
        processes: ids of the processes of threads: several, if traces were merged.
    """

    names: Sequence[str]
    threads: list[Thread]
    tasks: Tasks
    library: Sequence[LibraryTask]
    operators: int
    runtime: int
    calls: Sequence[KinetoEvent]
    notes: Sequence[KinetoEvent]
    waits: Sequence[KinetoEvent]
    stream_waits: Sequence[KinetoEvent]
    recorded: dict[int, KinetoEvent]
    doubts: dict[tuple[Fate, str], tuple[int, KinetoEvent]]
    processes: Sequence[int | str]


class _Columns:
    """Times and names under construction."""

    def __init__(self) -> None:
        self.start, self.duration, self.name = array("d"), array("d"), array("i")

    def add(self, event: RawEvent, name: int) -> None:
        self.start.append(event.ts)
        self.duration.append(event.dur)
        self.name.append(name)

    def sorted_arrays(self, key: Floats | None = None) -> tuple[Floats, Floats, npt.NDArray[np.int32], Integers]:
        """Start, duration and name by key (or start) and start, longer ones first; and the order. These are emptied."""
        start, duration = np.frombuffer(self.start), np.frombuffer(self.duration)
        name = np.frombuffer(self.name, dtype=np.int32)
        order = np.lexsort((-duration, start) if key is None else (-duration, start, key))
        arrays = start[order], duration[order], name[order], order
        self.start, self.duration, self.name = array("d"), array("d"), array("i")
        return arrays


class EventCollector:
    """Collects the events of a document as they come.

    Args:
        wanted: record function ids of operators that are to be kept.
    """

    def __init__(self, wanted: Collection[int] = ()) -> None:
        self._wanted = wanted
        self._names: dict[str, int] = {}
        self._thread_numbers: dict[int | str | None, int] = {}
        self._threads: list[_Columns] = []
        self._launches = array("q"), array("d"), array("i")  # correlation, start, thread
        self._tasks, self._streams, self._correlations = _Columns(), array("i"), array("q")
        self._stream_numbers: dict[object, int] = {}
        self._library: dict[int, KinetoEvent] = {}
        self._operators = self._runtime = 0
        self._calls: list[KinetoEvent] = []
        self._notes: list[KinetoEvent] = []
        self._waits: list[KinetoEvent] = []
        self._stream_waits: list[KinetoEvent] = []
        self._recorded: dict[int, KinetoEvent] = {}
        self._doubts: dict[tuple[Fate, str], tuple[int, KinetoEvent]] = {}
        self._processes: dict[int | str, None] = {}
        self._record_id = msgspec.json.Decoder(_OperatorArguments).decode
        self._said = msgspec.json.Decoder(_DeviceArguments).decode

    def add(self, event: RawEvent) -> None:
        """Take an event.

        Raises:
            msgspec.MsgspecError: its arguments cannot be read.
        """
        if event.ph != "X":
            return
        category = event.cat
        if category == "cpu_op":
            self._add_operator(event)
        elif category in _RUNTIME:
            self._add_runtime(event)
        elif category in _DEVICE:
            self._add_task(event)
        elif category == "user_annotation":
            if LIBRARY.match(event.name) or GROUP_NOTE.search(event.name):
                self._notes.append(_whole(event))
        elif category not in _WITHOUT_EFFECT:
            self._doubt(Fate.DROPPED, f"events of category {category or 'uncategorized'}", event)

    def finish(self) -> KinetoEvents:
        """What was collected; the collector is of no use afterwards."""
        threads = self._finished_threads()
        number_of = {one.tid: number for number, one in enumerate(threads)}
        numbers = np.array([number_of[tid] for tid in self._thread_numbers], dtype=np.int32)
        tasks, order = self._finished_tasks(numbers)
        for found in (self._calls, self._notes, self._waits, self._stream_waits):
            found.sort(key=lambda one: (one.ts, -one.dur))
        return KinetoEvents(
            names=list(self._names),
            threads=threads,
            tasks=tasks,
            library=self._library_tasks(tasks, order, threads),
            operators=self._operators,
            runtime=self._runtime,
            calls=self._calls,
            notes=self._notes,
            waits=self._waits,
            stream_waits=self._stream_waits,
            recorded=self._recorded,
            doubts=self._doubts,
            processes=list(self._processes),
        )

    def _doubt(self, fate: Fate, what: str, event: RawEvent) -> None:
        number, first = self._doubts.get((fate, what)) or (0, _timed(event))
        self._doubts[fate, what] = number + 1, first

    def _name(self, event: RawEvent) -> int:
        return self._names.setdefault(event.name, len(self._names))

    def _add_to_thread(self, event: RawEvent) -> int:
        if event.pid is not None:
            self._processes[event.pid] = None
        number = self._thread_numbers.setdefault(event.tid, len(self._threads))
        if number == len(self._threads):
            self._threads.append(_Columns())
        self._threads[number].add(event, self._name(event))
        return number

    def _add_operator(self, event: RawEvent) -> None:
        self._operators += 1
        self._add_to_thread(event)
        if event.name == CALL or event.name.startswith(DISPATCHED):
            self._calls.append(_whole(event))
        if self._wanted:
            number = self._record_id(event.args).number
            if isinstance(number, int) and number in self._wanted:
                self._recorded[number] = _timed(event)

    def _add_runtime(self, event: RawEvent) -> None:
        self._runtime += 1
        thread = self._add_to_thread(event)
        number = _correlation(self._said(event.args))
        if number != _NONE:
            correlations, starts, threads = self._launches
            correlations.append(number)
            starts.append(event.ts)
            threads.append(thread)
        wait = _wait(event.name)
        if wait is _Wait.UNKNOWN:
            self._doubt(Fate.GUESSED, "calls of the runtime that may wait, of a name not known: as if none did", event)
        elif wait is not None:
            (self._waits if wait is _Wait.HOST else self._stream_waits).append(_timed(event))

    def _add_task(self, event: RawEvent) -> None:
        said = self._said(event.args)
        if is_library_kernel(event.name):
            self._library[len(self._streams)] = _whole(event)
        elif is_other_communication(event.name):
            what = "kernels that look like communication of libraries other than NCCL: played as compute"
            self._doubt(Fate.GUESSED, what, event)
        self._tasks.add(event, self._name(event))
        stream = (_key(said.device), _key(event.tid if said.stream is None else said.stream))
        self._streams.append(self._stream_numbers.setdefault(stream, len(self._stream_numbers)))
        self._correlations.append(_correlation(said))

    def _finished_threads(self) -> list[Thread]:
        """The threads, the one that began first at the front."""
        threads = []
        for tid, columns in zip(self._thread_numbers, self._threads, strict=True):
            start, duration, name, _ = columns.sorted_arrays()
            threads.append(Thread(tid, start, start + duration, name))
        return sorted(threads, key=lambda one: (one.start[0], -one.end[0]))

    def _finished_tasks(self, thread_numbers: npt.NDArray[np.int32]) -> tuple[Tasks, Integers]:
        """The tasks, and the order that they had.

        Args:
            thread_numbers: of the threads in the order in which they were seen.
        """
        correlation = np.frombuffer(self._correlations, dtype=np.int64)
        launches = np.frombuffer(self._launches[0], dtype=np.int64)
        starts, threads = np.frombuffer(self._launches[1]), np.frombuffer(self._launches[2], dtype=np.int32)
        by_number = np.lexsort((starts, launches))
        at = np.searchsorted(launches, correlation, side="right", sorter=by_number) - 1
        found = by_number[np.maximum(at, 0)] if len(by_number) else np.zeros(len(at), dtype=np.int64)
        is_launched = (at >= 0) & (correlation != _NONE)
        is_launched[is_launched] = launches[found[is_launched]] == correlation[is_launched]
        launch = np.full(len(at), np.nan)
        launch[is_launched] = starts[found[is_launched]]
        thread = np.full(len(at), -1, dtype=np.int32)
        thread[is_launched] = thread_numbers[threads[found[is_launched]]]
        given = np.where(is_launched, launch, np.frombuffer(self._tasks.start))
        start, duration, name, order = self._tasks.sorted_arrays(given)
        stream = np.frombuffer(self._streams, dtype=np.int32)
        return Tasks(start, duration, name, stream[order], launch[order], thread[order]), order

    def _library_tasks(self, tasks: Tasks, order: Integers, threads: Sequence[Thread]) -> list[LibraryTask]:
        if not self._library:
            return []
        row_of = np.empty(len(order), dtype=np.int64)
        row_of[order] = np.arange(len(order))
        found = []
        for before, event in self._library.items():
            row = int(row_of[before])
            thread = int(tasks.thread[row])
            launch = None if thread < 0 else KinetoEvent("", threads[thread].tid, float(tasks.launch[row]), 0.0)
            found.append(LibraryTask(row, event, launch))
        return sorted(found, key=lambda one: one.row)


@lru_cache
def _wait(name: str) -> _Wait | None:
    """Who waits in a call of the runtime; None: nobody."""
    if found := _WAIT.fullmatch(name):
        return _Wait.HOST if found["host"] else _Wait.STREAM
    return _Wait.UNKNOWN if _LIKE_WAIT.search(name) else None


def _timed(event: RawEvent) -> KinetoEvent:
    return KinetoEvent(event.name, event.tid, event.ts, event.dur)


def _whole(event: RawEvent) -> KinetoEvent:
    said = msgspec.json.decode(event.args, type=dict[str, Any])
    return KinetoEvent(event.name, event.tid, event.ts, event.dur, said, is_operator=event.cat == "cpu_op")


def _correlation(said: _DeviceArguments) -> int:
    number = said.correlation
    return number if type(number) is int and abs(number) < _LARGEST_NUMBER else _NONE


def _key(value: Any) -> int | str | None:
    """A value that can be compared, whatever a damaged file has."""
    return value if isinstance(value, int | str) else None


class Intervals:
    """Events, each with a number; those of a thread may be nested.

    Args:
        events: by start.
    """

    def __init__(self, events: Iterable[KinetoEvent]) -> None:
        self._numbered: defaultdict[object, list[tuple[int, KinetoEvent]]] = defaultdict(list)
        for number, event in enumerate(events):
            self._numbered[event.tid].append((number, event))
        self._starts = {tid: [one.ts for _, one in events] for tid, events in self._numbered.items()}
        self._reached = {
            tid: list(accumulate((one.end for _, one in events), max)) for tid, events in self._numbered.items()
        }

    def around(self, event: KinetoEvent) -> int | None:
        """Number of the innermost event during which this one starts on the same thread; None: there is none."""
        reached = self._reached.get(event.tid, ())
        for at in range(self._count_before(event) - 1, -1, -1):
            if reached[at] < event.ts:
                break
            number, found = self._numbered[event.tid][at]
            if found.end >= event.ts:
                return number
        return None

    def before(self, event: KinetoEvent) -> Iterator[int]:
        """Numbers of events that have started on the same thread, the last one first."""
        for at in range(self._count_before(event) - 1, -1, -1):
            yield self._numbered[event.tid][at][0]

    def _count_before(self, event: KinetoEvent) -> int:
        return bisect_right(self._starts.get(event.tid, ()), event.ts)
