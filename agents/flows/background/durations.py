"""Durations of any number of events, and their percentiles."""

from __future__ import annotations

from array import array

import numpy as np

from emulator.statistics.descriptive import percentile

MOST_KEPT = 1 << 20


class Durations:
    """All durations, ns; beyond about a million, every second one, every fourth and so on.

    Attributes:
        count: durations noted.
    """

    __slots__ = ("_every", "_kept", "count")

    def __init__(self) -> None:
        self._kept, self._every, self.count = array("q"), 1, 0

    def note(self, duration_ns: int) -> None:
        """Add one."""
        if self.count % self._every == 0:
            self._kept.append(duration_ns)
            if len(self._kept) == MOST_KEPT:
                self._kept, self._every = self._kept[::2], 2 * self._every
        self.count += 1

    def percentile(self, q: float) -> float | None:
        """See `emulator.statistics.descriptive.percentile`."""
        return percentile(np.frombuffer(self._kept, np.int64), q) if self._kept else None
