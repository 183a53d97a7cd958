"""Descriptive statistics of raw samples: percentiles, medians, the coefficient of variation.

Percentiles and medians are measured values, never interpolated: a percentile is the nearest rank, and the median of an
even number of samples is the lower of the two in the middle. Quantiles of Student's t are computed here, for whole
degrees of freedom, where its distribution function is a finite sum.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Values: TypeAlias = npt.NDArray[np.integer[Any]] | npt.NDArray[np.floating[Any]]


def samples_needed(q: float) -> int:
    """Smallest number of samples that supports the q-quantile: 1 / min(q, 1 - q), and 1 for the median.

    Args:
        q: above 0 and below 1. 0.9 needs 10 samples, 0.95 20, 0.99 100, 0.999 1,000.

    Raises:
        ValueError: q is out of range.
    """
    if not 0 < q < 1:
        raise ValueError(f"{q} is not a quantile between 0 and 1")
    exact = Fraction(str(q))
    return 1 if exact == Fraction(1, 2) else math.ceil(1 / min(exact, 1 - exact))


def percentile(values: Values, q: float) -> float | None:
    """The q-quantile by nearest rank: the smallest value with at least a fraction q of the samples at or below it.

    Args:
        values: any number, in any order, without NaN.
        q: above 0 and below 1; 0.99 is the 99th percentile.

    Returns:
        One of `values`; None if there are fewer than `samples_needed`.
    """
    if len(values) < samples_needed(q):
        return None
    return float(np.quantile(values, q, method="inverted_cdf"))


def median(values: Values) -> float | None:
    """The lower median; None without values."""
    return percentile(values, 0.5)


def median_index(values: Values) -> int:
    """Index of the lower median; the first one among equals.

    Args:
        values: at least one.
    """
    order = np.argsort(values, kind="stable")
    return int(np.flatnonzero(values == values[order[(len(values) - 1) // 2]])[0])


def variation(values: Values) -> float | None:
    """Coefficient of variation: sample standard deviation over mean; None for one sample or a mean of 0."""
    if len(values) < 2 or np.mean(values) == 0:
        return None
    return float(np.std(values, ddof=1) / np.mean(values))


@cache
def student_t_quantile(share: float, freedom: int) -> float:
    """The value that a fraction `share` of the distribution lies below, to 12 digits.

    Args:
        share: at least 0.5 and below 1.
        freedom: degrees of freedom, at least 1.
    """
    low, high = 0.0, math.pi / 2
    while low < (angle := (low + high) / 2) < high:
        low, high = (angle, high) if _share_within(angle, freedom) < 2 * share - 1 else (low, angle)
    return math.sqrt(freedom) * math.tan(low)


def _share_within(angle: float, freedom: int) -> float:
    """The probability of |t| < √freedom · tan(angle).

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    sine, cosine = math.sin(angle), math.cos(angle)
    numerators = np.arange(1 + freedom % 2, freedom - 2, 2)
    terms = 1 + float(np.cumprod(numerators / (numerators + 1) * cosine**2).sum())
    if freedom % 2 == 0:
        return sine * terms
    return 2 / math.pi * (angle + (sine * cosine * terms if freedom > 1 else 0))
