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
from emulator.results.statistics.method.descriptive import student_t_quantile
from emulator.trace.meaning.model import IntArray

SIGNIFICANCE = 0.05
MIN_RUNS = 2
MAX_RUNS = 100
"""A class that needs more runs a side cannot be decided in practice."""
POWER = 0.95
"""Share of comparisons that find a difference said to be found."""
_BOOTSTRAP_REACH = 1.05
"""The interval of `ratio` reaches so much further than Student's t on means: simulated normal runs, 6 to 20 a side."""
_MAX_ADDITIONS = 10**8
"""Of an exact Mann-Whitney test; 0.2 s. Enough for 75 runs a side, 60 with ties."""

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
    sides = ((np.log(baseline), baseline_at), (np.log(other), other_at))
    slope = float(np.mean([_theil_sen_slope(logs, at) for logs, at in sides]))
    ratios: Floats = other / baseline / np.exp(slope * (other_at - baseline_at))
    return ratios


def _theil_sen_slope(values: Floats, at: Floats) -> float:
    rises, runs = np.subtract.outer(values, values), np.subtract.outer(at, at)
    return float(np.median(rises[runs > 0] / runs[runs > 0]))


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
    """p of Wilcoxon's two-sided signed-rank test on pairs: exact; equal pairs are ranked, but have no sign (Pratt)."""
    logs = np.log(ratios)
    ranks = _whole_ranks(np.abs(logs))
    share = np.zeros(int(ranks.sum()) + 1)  # by sum of the ranks above 1: share of the ways to choose signs
    share[0] = 1
    for rank in ranks[logs != 0].tolist():
        share[rank:] += share[:-rank]
        share /= 2
    return _two_sided(share, int(ranks[logs > 0].sum()))


def smallest_paired_p(pairs: int) -> float:
    """The smallest p that the exact signed-rank test can give with this number of pairs."""
    return min(1.0, 2.0 ** (1 - pairs))


def _log_shift(baseline: Floats, other: Floats, axis: int) -> Floats:
    pairs = other[..., :, None] - baseline[..., None, :]
    shift: Floats = np.median(pairs.reshape(*pairs.shape[:-2], -1), axis=axis)
    return shift


def rank_test_p(baseline: Floats, other: Floats) -> float:
    """p of the two-sided Mann-Whitney test: exact, except in groups so large that it makes no difference."""
    fewer, more = sorted((baseline, other), key=len)
    ranks = _whole_ranks(np.concatenate([fewer, more]))
    count, total = len(fewer), int(ranks[: len(fewer)].sum())
    largest = int(np.sort(ranks)[-count:].sum())
    if len(ranks) * count * largest > _MAX_ADDITIONS:
        mean = float(np.mean(ranks))
        beyond = abs(total - count * mean) - mean / (len(ranks) + 1)  # half a rank, for the normal distribution
        variance = count * len(more) / len(ranks) * float(np.var(ranks, ddof=1))
        return math.erfc(beyond / math.sqrt(2 * variance)) if beyond > 0 else 1.0
    ways = np.zeros((count + 1, largest + 1))  # by number of ranks and their sum: ways to choose them
    ways[0, 0] = 1
    for rank in ranks.tolist():
        ways[1:, rank:] += ways[:-1, :-rank]
    return _two_sided(ways[count] / math.comb(len(ranks), count), total)


def _whole_ranks(values: Floats) -> IntArray:
    """Ranks from 1, the mean among equals; all of them doubled if one is not a whole number."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    doubled = 2 * np.cumsum(counts) - counts + 1
    return np.asarray((doubled if np.any(doubled % 2) else doubled // 2)[place], np.int64)


def _two_sided(share: Floats, observed: int) -> float:
    """Twice the smaller tail of a distribution over 0, 1, …, what was observed included.

    Source: Streitberg and Röhmel, Exact Distributions for Permutation and Rank Tests, Statistical Software Newsletter
    12 (1986): building them up rank by rank.
    """
    return min(1.0, 2 * float(min(share[: observed + 1].sum(), share[observed:].sum())))


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
        freedom, error = (runs - 1, 1 / runs) if self.is_paired else (2 * runs - 2, 2 / runs)
        quantiles = (student_t_quantile(share, freedom) for share in (0.5 + CONFIDENCE / 2, max(power, 0.5)))
        return sum(quantiles) * self.log_deviation * math.sqrt(error)


def spread_of_pairs(ratios: Floats) -> RunSpread:
    """The spread of the ratios of pairs, at least two."""
    return RunSpread(math.sqrt(_log_variance(ratios)), is_paired=True)


def spread_of_groups(baseline: Floats, other: Floats) -> RunSpread:
    """The spread of runs within their group, at least two in each."""
    return RunSpread(math.sqrt((_log_variance(baseline) + _log_variance(other)) / 2), is_paired=False)


def _log_variance(values: Floats) -> float:
    return float(np.var(np.log(values), ddof=1))
