"""How long a process was ready to run and had no core (/proc/PID/schedstat, Documentation/scheduler/sched-stats.rst).

A tester that waits for a core measures itself: the wait looks like time in the network.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Self


class CoreTime(NamedTuple):
    """Time of this process's main thread since it began, ns.

    Attributes:
        ran: on a core.
        waited: ready to run, while other processes had the core or a quota was used up.
    """

    ran: int
    waited: int

    @classmethod
    def now(cls, path: Path = Path("/proc/self/schedstat")) -> Self | None:
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
