"""How late events were against their schedule: the newest delays, and their median."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

REMEMBERED = 1 << 16


class Lateness:
    """Remembers the newest 65,536 delays, ns."""

    __slots__ = ("_delays_ns", "_noted")

    def __init__(self) -> None:
        self._delays_ns: npt.NDArray[np.int64] = np.zeros(REMEMBERED, dtype=np.int64)
        self._noted = 0

    def note(self, delay_ns: int) -> None:
        """Add a delay."""
        self._delays_ns[self._noted % REMEMBERED] = delay_ns
        self._noted += 1

    def median_ns(self) -> int | None:
        """Median of the remembered delays; None if there are none."""
        return int(np.median(self.delays_ns())) if self._noted else None

    def delays_ns(self) -> npt.NDArray[np.int64]:
        """The remembered delays: int64, shape (at most 65,536,), ns, in no order."""
        return self._delays_ns[: self._noted].copy()
