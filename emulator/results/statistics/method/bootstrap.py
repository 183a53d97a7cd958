"""Bootstrap confidence intervals for small numbers of independent units.

With few units the plain percentile interval is too narrow: with six a side it covers the true value in about 93 % of
cases instead of 95 %. BCa estimates its corrections from the same six units. The expanded percentile interval uses
quantiles further out, which corrects for Student's t and for the factor (n - 1) / n in the variance.

Source: Hesterberg, What Teachers Should Know About the Bootstrap, The American Statistician 69 (2015), 4.1 and 5.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from emulator.results.statistics.method.descriptive import student_t_quantile
from emulator.trace.meaning.model import IntArray

CONFIDENCE = 0.95
RESAMPLES = 9_999
MIN_ITERATIONS = 6
"""With five values, even the interval from the smallest to the largest covers the median in less than 95 % of cases:
2 · 0.5 ** 5 > 0.05.
"""
_BATCH_VALUES = 2_000_000

Floats = npt.NDArray[np.floating[Any]]


class Interval(NamedTuple):
    """Bounds, in the unit of the samples."""

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
    """The 95 % expanded percentile interval of a statistic.

    Args:
        samples: one or more arrays of independent units, at least two units each.
        statistic: vectorised function of these arrays, with an `axis` argument.
        seed: the same seed gives the same interval.
        values_per_resample: numbers that the statistic of one resample reads; bounds memory.
    """
    smallest = min(len(sample) for sample in samples)
    freedom = sum(len(sample) - 1 for sample in samples)
    reach = math.sqrt(smallest / (smallest - 1)) * student_t_quantile(0.5 + CONFIDENCE / 2, freedom)
    tail = math.erfc(reach / math.sqrt(2)) / 2  # of the normal distribution
    random, batch = np.random.default_rng(seed), max(1, _BATCH_VALUES // values_per_resample)
    found = []
    for first in range(0, resamples, batch):
        rows = min(batch, resamples - first)
        drawn = (sample[random.integers(len(sample), size=(rows, len(sample)))] for sample in samples)
        found.append(statistic(*drawn, axis=-1))
    low, high = np.quantile(np.concatenate(found), (tail, 1 - tail))
    return Interval(float(low), float(high))


def median_interval(values: IntArray, unit: IntArray) -> Interval | None:
    """The 95 % interval of the lower median of one run.

    Args:
        unit: iteration of each value. Values of one iteration are not independent, so iterations are resampled.

    Returns:
        None for fewer than MIN_ITERATIONS.
    """
    table = _by_unit(values, unit)
    if len(table) < MIN_ITERATIONS:
        return None

    def lower_median(chosen: IntArray, axis: int) -> Floats:
        drawn = table[chosen].reshape(*chosen.shape[:-1], -1)
        drawn.sort(axis=-1)  # NaN sorts last
        middle = (np.count_nonzero(~np.isnan(drawn), axis=-1, keepdims=True) - 1) // 2
        found: Floats = np.take_along_axis(drawn, middle, axis=-1)[..., 0]
        return found

    units = np.arange(len(table))
    return bootstrap_interval((units,), lower_median, seed=0, resamples=999, values_per_resample=table.size)


def _by_unit(values: IntArray, unit: IntArray) -> Floats:
    """The values as a table with one row per unit, padded with NaN."""
    _, row, counts = np.unique(unit, return_inverse=True, return_counts=True)
    order = np.argsort(row, kind="stable")
    table: Floats = np.full((len(counts), counts.max(initial=0)), np.nan)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    table[row[order], np.arange(len(values)) - first] = values[order]
    return table
