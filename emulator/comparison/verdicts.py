"""Comparison of groups of runs, class by class: effect and interval first, then the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from emulator.comparison import inference
from emulator.comparison.comparability import Comparability
from emulator.comparison.groups import RunGroup
from emulator.comparison.inference import Floats
from emulator.statistics.bootstrap import RESAMPLES, Interval
from emulator.statistics.classes import JCT, ClassKey
from emulator.statistics.descriptive import samples_needed, variation

MEDIAN, TAIL = 0.5, 0.99


class Verdict(Enum):
    """Verdict on a class. "No difference shown": the interval lies within the margin. It does not prove equality."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no difference shown"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Rules:
    """How verdicts are reached.

    Attributes:
        margin: largest difference that does not matter in practice, as a fraction. 0.03 allows ratios from 1 / 1.03 to
            1.03, both included.
        quantile: of the measurements of a run, the number that represents the run; 0.5 is the median.
        seed, resamples: of the bootstrap.
    """

    margin: float = 0.03
    quantile: float = MEDIAN
    seed: int = 0
    resamples: int = RESAMPLES

    def contains(self, interval: Interval) -> bool:
        """The whole interval lies within the margin."""
        return 1 / (1 + self.margin) <= interval.low and interval.high <= 1 + self.margin

    def excludes(self, interval: Interval) -> bool:
        """The whole interval lies outside the margin, on one side."""
        return interval.low > 1 + self.margin or interval.high < 1 / (1 + self.margin)


@dataclass(frozen=True, slots=True)
class Side:
    """A class in one group.

    Attributes:
        values_ns: one number per run that has one, in the order of the runs of the group.
        samples: measurements behind them.
    """

    values_ns: tuple[float, ...]
    samples: int

    @property
    def array(self) -> Floats:
        """`values_ns` as an array."""
        return np.array(self.values_ns)

    @property
    def runs(self) -> int:
        """Number of runs that have a number."""
        return len(self.values_ns)

    @property
    def median_ns(self) -> float | None:
        """Median over runs; for an even number of runs, the mean of the two in the middle."""
        return float(np.median(self.values_ns)) if self.values_ns else None

    @property
    def variation(self) -> float | None:
        """Coefficient of variation between runs; None for fewer than two."""
        return variation(self.array)


@dataclass(frozen=True, slots=True)
class Effect:
    """Times of the other group over those of the baseline: above 1 is slower; `interval` at 95 %."""

    ratio: float
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class ClassComparison:
    """One class in two groups.

    Attributes:
        effect: on the quantile that the verdict is about; None if a side has no number.
        p: two-sided exact rank test on runs; `holm_p` is corrected for all classes of the pair.
        tail: effect on the 99th percentiles of runs; None if runs have too few measurements.
        verdict: as the rules say.
        needs: runs a side that would decide; None if it is decided, or if more than 100 would be needed.
        why: what an inconclusive verdict lacks.
        is_too_few: there are fewer runs than the rank test needs; `needs` is the smallest number that it can use.
    """

    key: ClassKey
    baseline: Side
    other: Side
    effect: Effect | None
    p: float | None
    holm_p: float | None
    tail: Effect | None
    verdict: Verdict
    needs: int | None = None
    why: str = ""
    is_too_few: bool = False


@dataclass(frozen=True, slots=True)
class PairComparison:
    """A group against the baseline: the iteration first, then the classes that take most time."""

    baseline: RunGroup
    other: RunGroup
    classes: Sequence[ClassComparison]

    def count(self, verdict: Verdict) -> int:
        """Number of classes with this verdict."""
        return sum(one.verdict is verdict for one in self.classes)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every group against the first one."""

    rules: Rules
    groups: Sequence[RunGroup]
    pairs: Sequence[PairComparison]
    comparability: Comparability

    @property
    def is_forced(self) -> bool:
        """Made although the runs are not comparable."""
        return bool(self.comparability.refused)

    def has(self, verdict: Verdict) -> bool:
        """Whether any class of any pair has this verdict."""
        return any(pair.count(verdict) for pair in self.pairs)

    def passes_gate(self, *, is_strict: bool) -> bool:
        """Whether nothing is slower; a strict gate does not pass inconclusive classes either."""
        return not self.has(Verdict.SLOWER) and not (is_strict and self.has(Verdict.INCONCLUSIVE))


def compare(groups: Sequence[RunGroup], comparability: Comparability, rules: Rules) -> Comparison:
    """Compare every group with the first.

    Args:
        groups: two or more.
        comparability: of these groups. The caller decides whether to compare groups that are not comparable.
        rules: for the verdicts.
    """
    pairs = [compare_pair(groups[0], other, rules) for other in groups[1:]]
    return Comparison(rules, groups, pairs, comparability)


def compare_pair(baseline: RunGroup, other: RunGroup, rules: Rules) -> PairComparison:
    """Compare two groups in every class that both measured and that takes time."""
    keys = sorted(key for key in _measured(baseline) & _measured(other) if key.takes_time)
    classes = [_compare_class(key, baseline, other, rules) for key in keys]
    adjusted = iter(inference.holm([one.p for one in classes if one.p is not None]))
    classes = [one if one.p is None else replace(one, holm_p=next(adjusted)) for one in classes]
    tests = sum(one.p is not None for one in classes)
    return PairComparison(baseline, other, sorted((_decide(one, rules, tests=tests) for one in classes), key=_sort_key))


def _measured(group: RunGroup) -> set[ClassKey]:
    return {key for run in group.runs for key in run.measurements.classes}


def _sort_key(one: ClassComparison) -> tuple[bool, float, ClassKey]:
    """JCT first, then by time spent in the class."""
    time_ns = one.baseline.samples / max(one.baseline.runs, 1) * (one.baseline.median_ns or 0.0)
    return one.key.collective != JCT, -time_ns, one.key


def _compare_class(key: ClassKey, baseline: RunGroup, other: RunGroup, rules: Rules) -> ClassComparison:
    """Everything but the verdict, which depends on the number of classes."""
    sides = _side(key, baseline, rules.quantile), _side(key, other, rules.quantile)
    tails = _side(key, baseline, TAIL), _side(key, other, TAIL)
    effect = _effect(*sides, rules)
    p = None if effect is None else inference.rank_test_p(sides[0].array, sides[1].array)
    tail = _effect(*tails, rules) if [side.runs for side in sides] == [tail.runs for tail in tails] else None
    return ClassComparison(key, *sides, effect, p, None, tail, Verdict.INCONCLUSIVE)


def _side(key: ClassKey, group: RunGroup, quantile: float) -> Side:
    times = [run.measurements.classes[key] for run in group.runs if key in run.measurements.classes]
    values = [value for one in times if (value := one.percentile_ns(quantile))]
    return Side(tuple(values), sum(len(one) for one in times))


def _effect(baseline: Side, other: Side, rules: Rules) -> Effect | None:
    if not baseline.runs or not other.runs:
        return None
    values = baseline.array, other.array
    interval = inference.ratio_interval(*values, seed=rules.seed, resamples=rules.resamples)
    return Effect(inference.ratio(*values), interval)


def _decide(one: ClassComparison, rules: Rules, *, tests: int) -> ClassComparison:
    """Add the verdict.

    Args:
        one: an inconclusive comparison.
        rules: for the verdict.
        tests: number of classes that are tested together.
    """
    if one.effect is None:
        needed = samples_needed(rules.quantile)
        return replace(one, why=f"a run needs {needed} measurements for this percentile")
    interval = one.effect.interval
    is_enough = inference.smallest_p(one.baseline.runs, one.other.runs) * tests < inference.SIGNIFICANCE
    if interval is None or not is_enough:
        needs = inference.runs_to_decide(tests)
        plural = f"{tests} classes" if tests != 1 else "1 class"
        return replace(one, needs=needs, why=f"too few runs to decide {plural}", is_too_few=True)
    is_significant = one.holm_p is not None and one.holm_p < inference.SIGNIFICANCE
    if is_significant and rules.excludes(interval):
        return replace(one, verdict=Verdict.SLOWER if interval.low > 1 else Verdict.FASTER)
    if rules.contains(interval):
        return replace(one, verdict=Verdict.NO_DIFFERENCE)
    why = "the rank test is not significant" if rules.excludes(interval) else "the interval crosses the margin"
    return replace(one, needs=_runs_needed(one, one.effect, rules, tests=tests), why=why)


def _runs_needed(one: ClassComparison, effect: Effect, rules: Rules, *, tests: int) -> int | None:
    """Runs a side that would decide if the ratio and the spread between runs stayed the same."""
    gap = abs(abs(np.log(effect.ratio)) - np.log1p(rules.margin))
    narrow = inference.runs_to_narrow(one.baseline.array, one.other.array, half_width=float(gap))
    if narrow is None:
        return None
    return max(narrow, min(one.baseline.runs, one.other.runs) + 1, inference.runs_to_decide(tests))
