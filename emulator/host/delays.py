"""The newest of many delays: of events against their schedule, of packets on their way to a device."""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt

REMEMBERED = 1 << 16


class NewestDelays:
    """Remembers the newest 65,536 delays, ns; takes all its memory at once, so that a process does not seem to grow."""

    __slots__ = ("_noted", "_remembered_ns")

    def __init__(self) -> None:
        self._remembered_ns = array("q", bytes(8 * REMEMBERED))
        self._noted = 0

    def note(self, delay_ns: int) -> None:
        """Add a delay."""
        self._remembered_ns[self._noted % REMEMBERED] = delay_ns
        self._noted += 1

    def median_ns(self) -> int | None:
        """Median of the remembered delays; None if there are none."""
        return int(np.median(self.delays_ns())) if self._noted else None

    def delays_ns(self) -> npt.NDArray[np.int64]:
        """The remembered delays: int64, shape (at most 65,536,), ns, in no order."""
        return np.array(self._remembered_ns[: self._noted], np.int64)
