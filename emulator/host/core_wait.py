"""How long a process was ready to run and had no core (/proc/PID/schedstat, Documentation/scheduler/sched-stats.rst).

A tester that waits for a core measures itself: the wait looks like time in the network.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple, Self

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


class CoreWait:
    """How long this process's main thread has waited for a core since it began; it is read again only every 0.2 ms.

    Args:
        path: the counters; None: there are none.
    """

    def __init__(self, path: Path | None = OWN) -> None:
        self._waited_ns, self._read_ns = -1, -_READ_EVERY_NS
        self._file: int | None = None
        if path is not None and CoreTime.now(path) is not None:
            self._file = os.open(path, os.O_RDONLY)

    def until(self, now: int) -> int:
        """Time waited until `now`, on a monotonic clock, ns; -1 if the kernel does not provide it."""
        if self._file is not None and now - self._read_ns >= _READ_EVERY_NS:
            self._read_ns = now
            self._waited_ns = int(os.pread(self._file, 64, 0).split(maxsplit=2)[1])
        return self._waited_ns

    def close(self) -> None:
        """Read no more; idempotent."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
