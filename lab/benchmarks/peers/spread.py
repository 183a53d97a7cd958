"""From readings taken in turns to ratios with their spread."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

NOISY = 1.5
"""If the largest reading of a peer is more than this many times the smallest, a ratio to it says nothing."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Some values, summed up; `count` of them."""

    median: float
    least: float
    most: float
    count: int

    @property
    def is_noisy(self) -> bool:
        """Whether the rounds differ by so much that the machine, and not the subject, was measured."""
        return self.most > NOISY * self.least


def spread(values: Sequence[float]) -> Spread | None:
    """Median (of an even count the mean of the middle two) and range; None of no values."""
    if not values:
        return None
    return Spread(statistics.median(values), min(values), max(values), len(values))


def paired_ratios(ours: Sequence[float | None], peer: Sequence[float | None]) -> list[float]:
    """Ours over the peer's, round by round; rounds in which one of them has no reading are left out."""
    pairs = zip(ours, peer, strict=True)
    return [own / other for own, other in pairs if own is not None and other is not None and other > 0]
