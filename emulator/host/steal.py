"""Steal (proc_stat(5)): how much of a virtual machine's cores its host gave to others, which no clock inside it shows.

A tester that was not running measures itself: its times are longer and vary more than the network's.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Self

_STEAL = 7  # user, nice, system, idle, iowait, irq, softirq, steal; the time of guests is in user and nice


class CoreTicks(NamedTuple):
    """Time of all cores since the machine began, in the kernel's ticks (10 ms of one core)."""

    total: int
    stolen: int

    @classmethod
    def now(cls, path: Path = Path("/proc/stat")) -> Self | None:
        """Up to now; None if the kernel does not say."""
        try:
            name, *columns = path.read_text().partition("\n")[0].split()
            ticks = [int(column) for column in columns[: _STEAL + 1]]
        except (OSError, ValueError):
            return None
        return cls(sum(ticks), ticks[_STEAL]) if name == "cpu" and len(ticks) > _STEAL else None


def steal_fraction(begin: CoreTicks | None, end: CoreTicks | None) -> float | None:
    """Share (0 to 1) of the cores' time between two moments that others got; None if the kernel does not say or no
    tick has passed. 0 on hardware of one's own.
    """
    if begin is None or end is None or end.total <= begin.total:
        return None
    return max(0, end.stolen - begin.stolen) / (end.total - begin.total)  # a machine that moved host may count back
