"""Order statistics of raw samples, and the rule for how many samples a percentile needs.

Every statistic here is a value that was measured, never one between two: a percentile is the nearest rank, the median
of an even count is the lower of the two in the middle.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Values: TypeAlias = npt.NDArray[np.integer[Any]] | npt.NDArray[np.floating[Any]]


def samples_needed(q: float) -> int:
    """Fewest samples that can carry the q-quantile: 1 for the median, else 1 / (1 - q), seen from the nearer tail.

    Args:
        q: between 0 and 1, both excluded: 0.9 needs 10 samples, 0.95 20, 0.99 100, 0.999 1,000.

    Raises:
        ValueError: q is no such number.
    """
    if not 0 < q < 1:
        raise ValueError(f"{q} is not a quantile between 0 and 1")
    exact = Fraction(str(q))
    return 1 if exact == Fraction(1, 2) else math.ceil(1 / min(exact, 1 - exact))


def percentile(values: Values, q: float) -> float | None:
    """The q-quantile by nearest rank: the smallest value with at least q of all samples at or below it.

    Args:
        values: any order, at least 0 of them, without NaN.
        q: between 0 and 1, both excluded; 0.99 is the 99th percentile.

    Returns:
        One of `values`; None if there are too few of them, see `samples_needed`.
    """
    if len(values) < samples_needed(q):
        return None
    return float(np.quantile(values, q, method="inverted_cdf"))


def median(values: Values) -> float | None:
    """The lower median; None of nothing."""
    return percentile(values, 0.5)


def median_index(values: Values) -> int:
    """Where the lower median stands: the first among equals.

    Args:
        values: at least one.
    """
    order = np.argsort(values, kind="stable")
    return int(np.flatnonzero(values == values[order[(len(values) - 1) // 2]])[0])


def variation(values: Values) -> float | None:
    """Coefficient of variation: sample standard deviation over mean; None under two samples or at mean 0."""
    if len(values) < 2 or np.mean(values) == 0:
        return None
    # scipy.stats has it too, and takes half a second to load: half of what the whole command takes to start.
    return float(np.std(values, ddof=1) / np.mean(values))
