"""Core time that was not there: a ready process had no core, or a virtual machine's host gave its cores to others.

A tester that waits measures itself: the wait looks like time in the network, and no clock inside shows it. Sources:
/proc/PID/schedstat (Documentation/scheduler/sched-stats.rst) and steal (proc_stat(5)).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple, Protocol, Self

OWN = Path("/proc/self/schedstat")
_READ_EVERY_NS = 200_000
"""A reading takes 2 µs: at most 1 % of the time goes into them."""


class CoreTime(NamedTuple):
    """Time of this process's main thread since it began, ns.

    Attributes:
        ran: on a core.
        waited: ready to run, while other processes had the core or a quota was used up.
    """

    ran: int
    waited: int

    @classmethod
    def now(cls, path: Path = OWN) -> Self | None:
        """Read the counters; None if the kernel does not provide them."""
        try:
            ran, waited, *_ = map(int, path.read_text().split())
        except (OSError, ValueError):
            return None
        return cls(ran, waited)


def wait_fraction(begin: CoreTime | None, end: CoreTime | None) -> float | None:
    """Share (0 to 1) of the time that a process wanted a core and had none; None if unknown, or it never wanted one."""
    if begin is None or end is None:
        return None
    ran, waited = end.ran - begin.ran, end.waited - begin.waited
    return waited / (ran + waited) if ran + waited > 0 else None


class SocketQueue(Protocol):
    """What a port sends without help of this process."""

    @property
    def empty_ns(self) -> int:
        """When the last of it has left, on a monotonic clock."""
        ...


class CoreWait:
    """How long this process's main thread has waited for a core since it began; it is read again only every 0.2 ms.

    While all of its ports have something to send, a wait costs no time and does not count: sockets keep what arrives,
    and what it leads to would have to stand in the same queue.

    Args:
        path: the counters; None: there are none.

    Attributes:
        queues: of the ports; none: all waits count.
    """

    def __init__(self, path: Path | None = OWN) -> None:
        self.queues: list[SocketQueue] = []
        self._waited_ns, self._read_ns, self._total_ns = -1, -_READ_EVERY_NS, 0
        self._idle_ns, self._seen_ns = 0, -_READ_EVERY_NS  # time without anything to send since the last reading
        self._file: int | None = None
        if path is not None and CoreTime.now(path) is not None:
            self._file, self._waited_ns = os.open(path, os.O_RDONLY), 0

    def until(self, now: int) -> int:
        """Time waited until `now`, on a monotonic clock, ns; -1 if the kernel does not provide it.

        To be called before something joins one of the queues.
        """
        if self._file is not None:
            idle_since = max(self._seen_ns, min((one.empty_ns for one in self.queues), default=self._seen_ns))
            self._idle_ns, self._seen_ns = self._idle_ns + max(0, now - idle_since), now
            if now - self._read_ns >= _READ_EVERY_NS:
                total_ns = int(os.pread(self._file, 64, 0).split(maxsplit=2)[1])
                self._waited_ns += min(total_ns - self._total_ns, self._idle_ns)
                self._read_ns, self._total_ns, self._idle_ns = now, total_ns, 0
        return self._waited_ns

    def close(self) -> None:
        """Read no more; idempotent."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


_STEAL = 7  # user, nice, system, idle, iowait, irq, softirq, steal; the time of guests is in user and nice


class CoreTicks(NamedTuple):
    """Time of all cores since the machine began, in the kernel's ticks (10 ms of one core)."""

    total: int
    stolen: int

    @classmethod
    def now(cls, path: Path = Path("/proc/stat")) -> Self | None:
        """Read the counters; None if the kernel does not provide them."""
        try:
            name, *columns = path.read_text().partition("\n")[0].split()
            ticks = [int(column) for column in columns[: _STEAL + 1]]
        except (OSError, ValueError):
            return None
        return cls(sum(ticks), ticks[_STEAL]) if name == "cpu" and len(ticks) > _STEAL else None


def steal_fraction(begin: CoreTicks | None, end: CoreTicks | None) -> float | None:
    """Share (0 to 1) of the cores' time that was stolen between two readings; None if it is not known, or no tick has
    passed. 0 on bare metal.
    """
    if begin is None or end is None or end.total <= begin.total:
        return None
    return max(0, end.stolen - begin.stolen) / (
        end.total - begin.total
    )  # after a live migration the counter may go back
