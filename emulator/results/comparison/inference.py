"""Statistical inference on two groups of runs: effect, interval, test, and how many runs are needed.

The unit is the run. Iterations of one run share its connections, its processes and the state of the machine, so a
thousand of them are not a thousand independent trials. Each run contributes one number per class: its median, or
another percentile.

Runs that were taken in turns (A1 B1 A2 B2 …) are compared in pairs: a slow drift of the host is in both runs of a pair
and cancels. The paired counterparts are the one-sample Hodges-Lehmann estimate and Wilcoxon's signed-rank test on the
logarithms of the ratios.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from emulator.results.statistics.method.bootstrap import CONFIDENCE, RESAMPLES, Interval, bootstrap_interval

SIGNIFICANCE = 0.05
MIN_RUNS = 2
MAX_RUNS = 100
"""A class that needs more runs a side cannot be decided in practice."""
POWER = 0.95
"""Share of comparisons that find a difference said to be found."""
_BOOTSTRAP_REACH = 1.05
"""The interval of `ratio` reaches so much further than Student's t on means: simulated normal runs, 6 to 20 a side."""
_MAX_PERMUTATIONS = 200_000

Floats = npt.NDArray[np.floating[Any]]


def ratio(baseline: Floats, other: Floats) -> float:
    """Hodges-Lehmann estimate: the median of the ratios of every run of `other` to every run of `baseline`.

    It is as robust as the ratio of the two medians, and with six runs a side nearly as precise as that of the means.

    Args:
        baseline: one number per run, above 0, at least one.
        other: likewise.
    """
    return float(np.exp(_log_shift(np.log(baseline), np.log(other), axis=-1)))


def ratio_interval(baseline: Floats, other: Floats, *, seed: int = 0, resamples: int = RESAMPLES) -> Interval | None:
    """95 % bootstrap interval of `ratio`, runs resampled within their group; None with fewer than MIN_RUNS in one."""
    if min(len(baseline), len(other)) < MIN_RUNS:
        return None
    logs = np.log(baseline), np.log(other)
    pairs = len(baseline) * len(other)
    found = bootstrap_interval(logs, _log_shift, seed=seed, resamples=resamples, values_per_resample=pairs)
    return Interval(math.exp(found.low), math.exp(found.high))


def pair_ratios(baseline: Floats, other: Floats, *, baseline_at: Floats, other_at: Floats) -> Floats:
    """Ratios of pairs, corrected for the drift between the two runs of a pair.

    In A B A B … every B is a little later than its A, so a steady drift would look like a difference. It is estimated
    from each side by itself (Theil-Sen slope of the logarithms over time) and taken out of every ratio.

    Args:
        baseline, other: one number per pair, above 0, at least two.
        baseline_at, other_at: when the runs began, s.
    """
    from scipy import stats  # takes half of the start-up time of a command

    sides = ((np.log(baseline), baseline_at), (np.log(other), other_at))
    slope = float(np.mean([stats.theilslopes(logs, at).slope for logs, at in sides]))
    ratios: Floats = other / baseline / np.exp(slope * (other_at - baseline_at))
    return ratios


def location(values: Floats) -> float:
    """One-sample Hodges-Lehmann estimate: the median of the geometric means of two values, each with itself included.

    Args:
        values: ratios of pairs, or one number per run; above 0, at least one.
    """
    return float(np.exp(_pseudomedian(np.log(values), axis=-1)))


def location_interval(values: Floats, *, seed: int = 0, resamples: int = RESAMPLES) -> Interval | None:
    """95 % bootstrap interval of `location`, values resampled; None with fewer than MIN_RUNS."""
    if len(values) < MIN_RUNS:
        return None
    found = bootstrap_interval(
        (np.log(values),), _pseudomedian, seed=seed, resamples=resamples, values_per_resample=len(values) ** 2
    )
    return Interval(math.exp(found.low), math.exp(found.high))


def _pseudomedian(logs: Floats, axis: int) -> Floats:
    means = (logs[..., :, None] + logs[..., None, :]) / 2
    upper = np.triu_indices(logs.shape[-1])
    found: Floats = np.median(means[..., upper[0], upper[1]], axis=axis)
    return found


def signed_rank_p(ratios: Floats) -> float:
    """p of Wilcoxon's two-sided signed-rank test on pairs: exact, by permutation if there are ties or equal pairs."""
    from scipy import stats  # takes half of the start-up time of a command

    logs = np.log(ratios)
    if not np.any(logs):
        return 1.0
    if len(np.unique(np.abs(logs))) == len(logs) and np.all(logs):
        return float(stats.wilcoxon(logs, method="exact").pvalue)
    if 2 ** len(logs) > _MAX_PERMUTATIONS:
        return float(stats.wilcoxon(logs, method="approx", zero_method="pratt").pvalue)
    permutations = stats.PermutationMethod(n_resamples=_MAX_PERMUTATIONS)
    return min(1.0, float(stats.wilcoxon(logs, method=permutations, zero_method="pratt").pvalue))


def smallest_paired_p(pairs: int) -> float:
    """The smallest p that the exact signed-rank test can give with this number of pairs."""
    return min(1.0, 2.0 ** (1 - pairs))


def _log_shift(baseline: Floats, other: Floats, axis: int) -> Floats:
    pairs = other[..., :, None] - baseline[..., None, :]
    shift: Floats = np.median(pairs.reshape(*pairs.shape[:-2], -1), axis=axis)
    return shift


def rank_test_p(baseline: Floats, other: Floats) -> float:
    """p of the two-sided Mann-Whitney test: exact, except with ties in groups so large that it makes no difference."""
    from scipy import stats  # takes half of the start-up time of a command

    values = np.concatenate([baseline, other])
    if len(np.unique(values)) == len(values):
        return float(stats.mannwhitneyu(baseline, other, method="exact").pvalue)
    if min(len(baseline), len(other)) < MIN_RUNS:  # scipy's permutations need two values a side
        single = min(baseline, other, key=len)[0]
        tail = min(np.count_nonzero(values <= single), np.count_nonzero(values >= single))
        return min(1.0, 2 * tail / len(values))
    if math.comb(len(values), len(baseline)) > _MAX_PERMUTATIONS:
        return float(stats.mannwhitneyu(baseline, other, method="asymptotic").pvalue)
    permutations = stats.PermutationMethod(n_resamples=_MAX_PERMUTATIONS)
    return min(1.0, float(stats.mannwhitneyu(baseline, other, method=permutations).pvalue))


def smallest_p(baseline: int, other: int) -> float:
    """The smallest p that the exact two-sided rank test can give with these numbers of runs."""
    return min(1.0, 2 / math.comb(baseline + other, other)) if baseline and other else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p values, in the same order.

    Rejecting where they are below 0.05 rejects any true hypothesis with a probability of at most 5 %.

    Source: Holm, A Simple Sequentially Rejective Multiple Test Procedure, Scandinavian Journal of Statistics 6 (1979).
    """
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(factors * np.asarray(p_values, np.float64)[order]))
    return [float(one) for one in adjusted]


def runs_to_decide(classes: int) -> int:
    """Smallest number of runs a side with which all classes can pass Holm's correction: 4 for 1, 6 for up to 23."""
    return next(n for n in itertools.count(MIN_RUNS) if smallest_p(n, n) * max(classes, 1) < SIGNIFICANCE)


def pairs_to_decide(classes: int) -> int:
    """Smallest number of pairs with which all classes can pass Holm's correction: 6 for 1, 10 for up to 25."""
    return next(n for n in itertools.count(MIN_RUNS) if smallest_paired_p(n) * max(classes, 1) < SIGNIFICANCE)


@dataclass(frozen=True, slots=True)
class RunSpread:
    """How much runs of one version differ, which limits what a comparison can find.

    Attributes:
        log_deviation: standard deviation of the logarithms: of the ratios of pairs, or of the runs of a group.
        is_paired: it is that of pairs.
    """

    log_deviation: float
    is_paired: bool

    def runs_to_narrow(self, half_width: float) -> int | None:
        """Pairs, or runs a side, that bring the half width of the interval down to a bound; None: over MAX_RUNS.

        Args:
            half_width: bound, as a difference of natural logarithms.
        """
        return self._first(lambda n: self._reach(n, 0.0) <= half_width)

    def smallest_found(self, runs: int, *, margin: float) -> float:
        """The smallest ratio above 1 that POWER of such comparisons find: their whole interval is outside the margin.

        Args:
            runs: pairs, or runs a side.
            margin: see verdicts.Rules.
        """
        return (1 + margin) * math.exp(_BOOTSTRAP_REACH * self._reach(runs, POWER))

    def runs_to_find(self, ratio: float, *, margin: float) -> int | None:
        """Pairs, or runs a side, with which POWER of comparisons find a ratio above 1 + margin; None: over MAX_RUNS."""
        return self._first(lambda n: self.smallest_found(n, margin=margin) <= ratio)

    def _first(self, is_enough: Callable[[int], bool]) -> int | None:
        return next((n for n in range(MIN_RUNS, MAX_RUNS + 1) if is_enough(n)), None)

    def _reach(self, runs: int, power: float) -> float:
        """Half width of the interval, and how far beyond it the effect must be to be found that often."""
        from scipy import stats  # takes half of the start-up time of a command

        freedom, error = (runs - 1, 1 / runs) if self.is_paired else (2 * runs - 2, 2 / runs)
        quantiles = (float(stats.t.ppf(share, freedom)) for share in (0.5 + CONFIDENCE / 2, max(power, 0.5)))
        return sum(quantiles) * self.log_deviation * math.sqrt(error)


def spread_of_pairs(ratios: Floats) -> RunSpread:
    """The spread of the ratios of pairs, at least two."""
    return RunSpread(math.sqrt(_log_variance(ratios)), is_paired=True)


def spread_of_groups(baseline: Floats, other: Floats) -> RunSpread:
    """The spread of runs within their group, at least two in each."""
    return RunSpread(math.sqrt((_log_variance(baseline) + _log_variance(other)) / 2), is_paired=False)


def _log_variance(values: Floats) -> float:
    return float(np.var(np.log(values), ddof=1))
