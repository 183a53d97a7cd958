"""Bootstrap intervals, made for few units.

The plain percentile interval is too narrow when few units are resampled: at six a side it holds the truth in about 93 %
of cases instead of 95 %, and BCa's corrections are themselves estimated from those six. The expanded percentile
interval takes quantiles further out, by what Student's t and the (n - 1) / n of the variance ask for.

Source: Hesterberg, What Teachers Should Know About the Bootstrap, The American Statistician 69 (2015), 4.1 and 5.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from emulator.trace.model import IntArray

CONFIDENCE = 0.95
RESAMPLES = 9_999
FEWEST_ITERATIONS = 6
"""Below six no interval between two of the values holds the median with 95 %: 2 · 0.5 ** 5 > 0.05."""
_BATCH_VALUES = 2_000_000

Floats = npt.NDArray[np.floating[Any]]


class Interval(NamedTuple):
    """Bounds, of the unit of what was resampled."""

    low: float
    high: float


def bootstrap_interval(
    samples: tuple[npt.NDArray[Any], ...],
    statistic: Callable[..., Any],
    *,
    seed: int,
    resamples: int = RESAMPLES,
    values_per_resample: int,
) -> Interval:
    """The expanded percentile interval of a statistic, at 95 %.

    Args:
        samples: one or two arrays of independent units, at least two in each.
        statistic: of as many arrays, vectorised: takes `axis`.
        seed: the same gives the same interval.
        resamples: how many.
        values_per_resample: numbers that the statistic of one resample takes at once, to bound memory.
    """
    from scipy import stats  # half of what a command takes to start

    smallest = min(len(sample) for sample in samples)
    freedom = sum(len(sample) - 1 for sample in samples)
    reach = math.sqrt(smallest / (smallest - 1)) * stats.t.ppf(0.5 + CONFIDENCE / 2, freedom)
    found = stats.bootstrap(
        samples,
        statistic,
        n_resamples=resamples,
        batch=max(1, _BATCH_VALUES // values_per_resample),
        vectorized=True,
        paired=False,
        confidence_level=float(1 - 2 * stats.norm.sf(reach)),
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Interval(float(found.low), float(found.high))


def median_interval(values: IntArray, unit: IntArray, *, seed: int = 0, resamples: int = 999) -> Interval | None:
    """How sure the median of one run is.

    Args:
        values: any number.
        unit: which iteration each is of: those of one iteration are drawn together, they are not independent.
        seed: of the resampling.
        resamples: how many.

    Returns:
        None with fewer than FEWEST_ITERATIONS.
    """
    table = _by_unit(values, unit)
    if len(table) < FEWEST_ITERATIONS:
        return None

    def lower_median(chosen: IntArray, axis: int) -> Floats:
        drawn = table[chosen].reshape(*chosen.shape[:-1], -1)
        drawn.sort(axis=-1)  # absent values go last
        middle = (np.count_nonzero(~np.isnan(drawn), axis=-1, keepdims=True) - 1) // 2
        found: Floats = np.take_along_axis(drawn, middle, axis=-1)[..., 0]
        return found

    units = np.arange(len(table))
    return bootstrap_interval((units,), lower_median, seed=seed, resamples=resamples, values_per_resample=table.size)


def _by_unit(values: IntArray, unit: IntArray) -> Floats:
    """A row per unit, filled up with NaN."""
    _, row, counts = np.unique(unit, return_inverse=True, return_counts=True)
    order = np.argsort(row, kind="stable")
    table: Floats = np.full((len(counts), counts.max(initial=0)), np.nan)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    table[row[order], np.arange(len(values)) - first] = values[order]
    return table
