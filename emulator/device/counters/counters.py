"""Reads counters of devices during a run, on a thread of its own.

A source is opened, read and closed on the same thread, because a thread is in one network namespace at a time.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from emulator.device.profile.changes import Change
from emulator.device.profile.profile import Drop, Duplicate, Mark, Police
from emulator.errors import EmulatorError
from emulator.host.resources import lower_priority

if TYPE_CHECKING:
    from emulator.results.run_folder.schema import Columns


PERIOD_S = 1.0
QUEUES_PERIOD_S, QUEUES_SHARE, QUEUES_ROWS = 0.02, 0.02, 500
"""Queues are read this often, unless that takes more than this share of a core, or yields more rows a second: a minute
is at most 30,000 rows, however many ports there are. A reading of a switch with 4 ports takes 0.1 ms."""
_CLOSING_S = 15.0


class CounterReading(NamedTuple):
    """The value of a counter: cumulative, except for a backlog.

    Attributes:
        device: name of the host or switch in the topology.
        interface: name of the port in the topology; "" for a counter of the whole device.
    """

    device: str
    interface: str
    counter: str
    value: int


class CounterSource(Protocol):
    """A source of counters of one or more devices."""

    def open(self) -> None:
        """Prepare for reading.

        Raises:
            HostError: a device cannot be reached, or the host lacks a tool or privilege.
        """
        ...

    def read(self) -> Sequence[CounterReading]:
        """The current values of all counters.

        Raises:
            HostError: a device no longer answers.
        """
        ...

    def read_queues(self) -> Sequence[CounterReading]:
        """Those of queues: their depth, drops and marks; empty if they cannot be read many times a second.

        Raises:
            HostError: a device no longer answers.
        """
        ...

    def close(self) -> None:
        """Release all resources; idempotent."""
        ...


class Sampler:
    """Reads sources before a run, periodically during it, and after it; queues more often, where that is possible.

    A reading of a queue that says the same as those before and after it is left out, so a line through the others goes
    through it. A source that fails during the run is not read again, nor its queues if only those fail; `problems` has
    the reason.

    Args:
        sources: of counters.
        clock_ns: the clock of the run, ns.
        period_s: time between readings, s.
    """

    def __init__(
        self,
        sources: Sequence[CounterSource],
        *,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        period_s: float = PERIOD_S,
    ) -> None:
        self._sources, self._clock_ns, self._period_s = list(sources), clock_ns, period_s
        self._lock, self._over, self._opened = threading.Lock(), threading.Event(), threading.Event()
        self._rows: list[tuple[int, CounterReading]] = []
        self._latest: dict[tuple[str, str, str], tuple[int, CounterReading, bool]] = {}  # the last: whether it is a row
        self._queues_s, self._queues_read = 0.0, 0
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="counters", daemon=True)
        self.problems: list[str] = []

    def start(self) -> None:
        """Take the first reading and start the thread.

        Raises:
            HostError: a source cannot be opened or read.
        """
        self._thread.start()
        self._opened.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Take the last reading and end the thread; idempotent."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(_CLOSING_S)

    def take(self) -> Columns | None:
        """The rows since the last call, as columns of the table in the run folder; None if there are none."""
        with self._lock:
            rows, self._rows = self._rows, []
        if not rows:
            return None
        return {
            "time_ns": [time_ns for time_ns, _ in rows],
            **{name: [getattr(one, name) for _, one in rows] for name in CounterReading._fields},
        }

    def _work(self) -> None:
        lower_priority()
        try:
            for source in self._sources:
                source.open()
            for source in self._sources:
                self._read(source)
            with_queues = [source for source in self._sources if source.read_queues()]
        except BaseException as error:  # raised by start()
            self._failure = error
            self._close()
            return
        finally:
            self._opened.set()
        begin = queues_due = time.monotonic()
        due = begin + self._period_s
        while not self._over.wait(max(0.0, (min(due, queues_due) if with_queues else due) - time.monotonic())):
            if is_whole := time.monotonic() >= due:
                due = max(due + self._period_s, time.monotonic())
            spent_s, rows = time.thread_time(), len(self._rows)
            failed = self._read_working(self._sources if is_whole else with_queues, is_whole=is_whole)
            spent_s, rows = time.thread_time() - spent_s, len(self._rows) - rows
            pause_s = 0.0 if is_whole else max(spent_s / QUEUES_SHARE, rows / QUEUES_ROWS)
            queues_due = time.monotonic() + max(QUEUES_PERIOD_S, pause_s)
            with_queues = [source for source in with_queues if source not in failed]
            self._queues_read += bool(with_queues)
            self._queues_s = time.monotonic() - begin
        self._read_working(with_queues, is_whole=False)  # whether they could be read to the end
        self._read_working(self._sources)
        self._close()

    @property
    def queues_period_s(self) -> float | None:
        """Mean time between two readings of queues, s; None: there were none between the first and the last."""
        return round(self._queues_s / self._queues_read, 4) if self._queues_read else None

    def _read_working(self, sources: Sequence[CounterSource], *, is_whole: bool = True) -> list[CounterSource]:
        """Read sources; returns those that failed."""
        failed = []
        for source in list(sources):
            try:
                self._read(source, is_whole=is_whole)
            except (EmulatorError, OSError) as error:
                failed.append(source)
                if is_whole:
                    self._sources.remove(source)
                    source.close()
                if str(error) not in self.problems:
                    self.problems.append(str(error))
        return failed

    def _read(self, source: CounterSource, *, is_whole: bool = True) -> None:
        readings = source.read() if is_whole else source.read_queues()
        read_ns = self._clock_ns()  # afterwards: what a reading counts never happened later than its time
        with self._lock:
            for one in readings:
                before_ns, before, is_row = self._latest.get(one[:3], (read_ns, one, True))
                changes = before.value != one.value
                if changes and not is_row:
                    self._rows.append((before_ns, before))
                is_row = is_whole or changes
                if is_row:
                    self._rows.append((read_ns, one))
                self._latest[one[:3]] = read_ns, one, is_row

    def _close(self) -> None:
        for source in self._sources:
            source.close()


DROPS, MARKS, DUPLICATES = "profile_drops", "ecn_marked", "profile_duplicates"
_COUNTER = {Drop: DROPS, Police: DROPS, Mark: MARKS, Duplicate: DUPLICATES}


@dataclass(frozen=True, slots=True)
class ProfileCounter:
    """The counter of a rule at a switch.

    Attributes:
        counter: profile_drops, ecn_marked or profile_duplicates.
        family, name: of the nftables object.
        interface: the port of its frames, where they leave, or else where they arrive; "" if there are several.
    """

    node: str
    rule: str
    counter: str
    family: str
    name: str
    interface: str = ""


def counters_of(changes: Sequence[Change]) -> list[ProfileCounter]:
    """The counters of all rules that count frames."""
    return [
        ProfileCounter(
            change.node.name,
            change.rule.name,
            _COUNTER[type(change.rule.action)],
            *change.counter,
            interface=_only_port(change),
        )
        for change in changes
        if change.counter is not None
    ]


def _only_port(change: Change) -> str:
    arriving = [end.port for end in change.rule.match.arriving if end.node == change.node.name]
    for names in ([port.name for port in change.ports], arriving):
        if len(names) == 1:
            return names[0]
    return ""


def sum_up(
    device: str, counters: Sequence[ProfileCounter], packets: Mapping[tuple[str, str], int]
) -> Iterator[CounterReading]:
    """Frames per rule (`profile_drops[lost-middles]`), and their sums per kind and port (`profile_drops`).

    Args:
        device: name of the switch.
        counters: of its rules.
        packets: (family, name) → frames. The object of a rule that has not started is missing: its value is 0.
    """
    sums: Counter[tuple[str, str]] = Counter()
    for one in counters:
        value = packets.get((one.family, one.name), 0)
        sums[one.interface, one.counter] += value
        yield CounterReading(device, one.interface, f"{one.counter}[{one.rule}]", value)
    yield from (CounterReading(device, interface, counter, value) for (interface, counter), value in sums.items())
