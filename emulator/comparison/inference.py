"""From the medians of runs to what can be said of two groups of runs.

A run is the unit: iterations of one run share its connections, its processes and the machine's mood, so a thousand of
them are not a thousand trials. Each run stands for a class with one number (its median, or another percentile).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from emulator.statistics.bootstrap import CONFIDENCE, RESAMPLES, Interval, bootstrap_interval

SIGNIFICANCE = 0.05
MOST_RUNS = 100
"""Beyond so many runs a side, needing more is as good as never."""
FEWEST_RUNS = 2
_MOST_PERMUTATIONS = 200_000

Floats = npt.NDArray[np.floating[Any]]


def ratio(baseline: Floats, other: Floats) -> float:
    """Hodges-Lehmann: the median of the ratios of every run of `other` to every run of `baseline`.

    As robust as the ratio of the two medians, and at six runs a side nearly as sure as that of the means.

    Args:
        baseline, other: a number per run, above 0, at least one each.
    """
    return float(np.exp(_shift(np.log(baseline), np.log(other), axis=-1)))


def ratio_interval(baseline: Floats, other: Floats, *, seed: int = 0, resamples: int = RESAMPLES) -> Interval | None:
    """95 % bootstrap interval of `ratio`, runs resampled within their group; None with fewer than two runs in one."""
    if min(len(baseline), len(other)) < FEWEST_RUNS:
        return None
    logs = np.log(baseline), np.log(other)
    pairs = len(baseline) * len(other)
    found = bootstrap_interval(logs, _shift, seed=seed, resamples=resamples, values_per_resample=pairs)
    return Interval(math.exp(found.low), math.exp(found.high))


def _shift(baseline: Floats, other: Floats, axis: int) -> Floats:
    pairs = other[..., :, None] - baseline[..., None, :]
    shift: Floats = np.median(pairs.reshape(*pairs.shape[:-2], -1), axis=axis)
    return shift


def rank_p(baseline: Floats, other: Floats) -> float:
    """Two-sided Mann-Whitney test; exact, but for ties in groups so large that it makes no difference."""
    from scipy import stats  # half of what a command takes to start

    values = np.concatenate([baseline, other])
    if len(np.unique(values)) == len(values):
        return float(stats.mannwhitneyu(baseline, other, method="exact").pvalue)
    if math.comb(len(values), len(baseline)) > _MOST_PERMUTATIONS:
        return float(stats.mannwhitneyu(baseline, other, method="asymptotic").pvalue)
    every = stats.PermutationMethod(n_resamples=_MOST_PERMUTATIONS)
    return min(1.0, float(stats.mannwhitneyu(baseline, other, method=every).pvalue))


def least_p(baseline: int, other: int) -> float:
    """The smallest p that the exact two-sided rank test can give with so many runs."""
    return min(1.0, 2 / math.comb(baseline + other, other)) if baseline and other else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p values, in the order given: below 0.05 with at most 5 % chance of any false one among them.

    Source: Holm, A Simple Sequentially Rejective Multiple Test Procedure, Scandinavian Journal of Statistics 6 (1979).
    """
    count = len(p_values)
    order = sorted(range(count), key=p_values.__getitem__)
    steps = itertools.accumulate(((count - n) * p_values[at] for n, at in enumerate(order)), max)
    adjusted = dict(zip(order, steps, strict=True))
    return [min(1.0, adjusted[at]) for at in range(count)]


def runs_to_decide(classes: int) -> int:
    """Fewest runs a side with which every one one in classes can pass Holm's correction: 4 decide 1, 6 up to 23."""
    return next(n for n in itertools.count(2) if least_p(n, n) * max(classes, 1) < SIGNIFICANCE)


def runs_to_narrow(baseline: Floats, other: Floats, *, gap: float) -> int | None:
    """Runs a side with which the interval's half width would be below `gap`, judged by the spread between runs so far.

    Args:
        baseline, other: a number per run, at least two each.
        gap: of the logarithm.

    Returns:
        None for more than MOST_RUNS.
    """
    from scipy import stats  # half of what a command takes to start

    spread = math.sqrt((_variance(baseline) + _variance(other)) / 2)
    for n in range(FEWEST_RUNS, MOST_RUNS + 1):
        if float(stats.t.ppf(0.5 + CONFIDENCE / 2, 2 * n - 2)) * spread * math.sqrt(2 / n) <= gap:
            return n
    return None


def _variance(values: Floats) -> float:
    return float(np.var(np.log(values), ddof=1))
