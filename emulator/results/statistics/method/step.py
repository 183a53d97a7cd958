"""A step in a series: the place that cuts it best into two constants, if there is one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

LEAST_SIDE = 5
"""Values on either side of a step: fewer could be a burst."""
LEAST_EXPLAINED = 0.5
"""Least part of the squared error that the step takes away. The best cut of 20 values of noise seldom takes 0.4."""


class Step(NamedTuple):
    """Values before `cut` have the mean `before`, those from it on `after`.

    Attributes:
        explained: squared error around the mean of all values that the two means take away.
    """

    cut: int
    before: float
    after: float
    explained: float

    @property
    def height(self) -> float:
        """How far apart both are."""
        return abs(self.after - self.before)


def find_step(values: npt.NDArray[np.floating[Any]]) -> Step | None:
    """The cut that leaves the smallest squared error of two constants.

    Returns:
        None: there are too few values, the two constants leave more than half of the squared error or more than a
            straight line does, which is a slow change, or a side has a further step of at least half the height, which
            is a pause or a stair.
    """
    if len(values) < 4 * LEAST_SIDE:
        return None
    step = _best_cut(values)
    if step is None or _of_line(values) >= step.explained:
        return None
    further = (_best_cut(side) for side in (values[: step.cut], values[step.cut :]))
    return None if any(one is not None and 2 * one.height >= step.height for one in further) else step


def _best_cut(values: npt.NDArray[np.floating[Any]]) -> Step | None:
    """The cut, if it takes away enough of the squared error."""
    count = len(values)
    if count < 2 * LEAST_SIDE:
        return None
    centred = values - values.mean()
    total = float(centred @ centred)
    cuts = np.arange(LEAST_SIDE, count - LEAST_SIDE + 1)
    explained = np.cumsum(centred)[cuts - 1] ** 2 * count / (cuts * (count - cuts))
    best = int(np.argmax(explained))
    if total <= 0 or explained[best] < LEAST_EXPLAINED * total:
        return None
    cut = int(cuts[best])
    return Step(cut, float(values[:cut].mean()), float(values[cut:].mean()), float(explained[best]))


def _of_line(values: npt.NDArray[np.floating[Any]]) -> float:
    """Squared error around the mean that the best straight line takes away."""
    at = np.arange(len(values)) - (len(values) - 1) / 2
    return float((at @ values) ** 2 / (at @ at))
