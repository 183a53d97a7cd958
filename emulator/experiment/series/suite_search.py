"""The highest load that passes, by bisection, as in RFC 2544 (section 26.1): which load to try next. Pure.

The first trial is at the highest load. If it fails, the lowest is next, then always the middle between the highest
load that passed and the lowest that failed, until the two differ by the resolution or less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Quantity = Literal["rate", "share", "size"]


@dataclass(frozen=True, slots=True)
class Search:
    """Finds the highest load at which every trial passes.

    Attributes:
        quantity: what the load is: `rate`, the rate cap of every port in bit/s; `share`, the same in hundredths of a
            percent of the rate of the slowest port; or `size`, that of the sweep in bytes.
        low, high: the range of loads.
        resolution: stop when the bounds differ by this share of `high` or less.
        trials: number of runs at each load; all of them must pass.
        at_least: the load that must be reached; `low` if the suite does not name one.
    """

    quantity: Quantity
    low: int
    high: int
    resolution: float
    trials: int
    at_least: int

    def next_load(self, tried: Mapping[int, bool]) -> int | None:
        """The load to try next; None if the search is over.

        Args:
            tried: load → whether it passed.
        """
        if not tried:
            return self.high
        if self.found(tried) == self.high:
            return None
        if self.low not in tried:
            return self.low
        passed, failed = self.found(tried), self.failed(tried)
        if passed is None or failed is None or failed - passed <= max(1, self.resolution * self.high):
            return None
        return (passed + failed) // 2

    def found(self, tried: Mapping[int, bool]) -> int | None:
        """The highest load that passed with none below it that failed; None if there is none."""
        failed = self.failed(tried)
        return max(
            (load for load, passes in tried.items() if passes and (failed is None or load < failed)), default=None
        )

    def failed(self, tried: Mapping[int, bool]) -> int | None:
        """The lowest load that failed; None if there is none."""
        return min((load for load, passes in tried.items() if not passes), default=None)
