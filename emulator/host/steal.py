"""Steal (proc_stat(5)): core time of a virtual machine that its host gave to others. No clock inside it shows this.

A tester that is not running measures itself: its times are longer and vary more than the network's.
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
