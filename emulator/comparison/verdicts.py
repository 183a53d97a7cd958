"""What is said of two groups of runs, class by class: effect and interval first, then the verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from emulator.statistics.measurements import Times

MEDIAN, TAIL = 0.5, 0.99


class Verdict(Enum):
    """Of a class. "No difference shown": the interval lies within the margin; it is not a proof of equality."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no difference shown"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Rules:
    """How verdicts are made.

    Attributes:
        margin: what does not matter in practice, as a fraction: 0.03 = 3 %; of a ratio, from 1 / 1.03 to 1.03.
        quantile: of a run's measurements, what stands for the run; 0.5 = its median.
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
        values_ns: a number per run that has one, in the order of the group's runs.
        samples: measurements behind them.
        median_ns: the median of `values_ns`; the mean of the two in the middle of an even count.
        variation: coefficient of variation between runs; None with fewer than two.
    """

    values_ns: tuple[float, ...]
    samples: int

    @property
    def runs(self) -> int:
        """How many runs have a number."""
        return len(self.values_ns)

    @property
    def median_ns(self) -> float | None:
        """Of the runs."""
        return float(np.median(self.values_ns)) if self.values_ns else None

    @property
    def variation(self) -> float | None:
        """Between runs."""
        return variation(np.array(self.values_ns))


@dataclass(frozen=True, slots=True)
class Effect:
    """How much slower: `ratio` of times, other over baseline, above 1 = slower; `interval` at 95 %."""

    ratio: float
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class ClassComparison:
    """One class in two groups.

    Attributes:
        effect: of the percentile that the verdict is about; None if a side has no number.
        p: two-sided exact rank test on runs; `holm_p` corrected for all classes of the pair.
        tail: effect on the 99th percentile of runs; None if runs have too few measurements.
        needs: runs a side that would decide; None if it is decided, or where that would take more than 100.
        why: what an inconclusive verdict lacks.
        is_too_few: there are fewer runs than the rank test wants; `needs` is what that wants, at least.
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
    """A group against the baseline; the iteration first, then the classes that take most time."""

    baseline: RunGroup
    other: RunGroup
    classes: Sequence[ClassComparison]

    def count(self, verdict: Verdict) -> int:
        """Classes of that verdict."""
        return sum(one.verdict is verdict for one in self.classes)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every group against the first one. `is_forced`: it was refused, and made all the same."""

    rules: Rules
    groups: Sequence[RunGroup]
    pairs: Sequence[PairComparison]
    comparability: Comparability

    @property
    def is_forced(self) -> bool:
        """Made although the runs are not comparable."""
        return bool(self.comparability.refused)

    def has(self, verdict: Verdict) -> bool:
        """Whether any class of any pair has that verdict."""
        return any(pair.count(verdict) for pair in self.pairs)


def compare(groups: Sequence[RunGroup], comparability: Comparability, rules: Rules) -> Comparison:
    """Compare every group with the first.

    Args:
        groups: two or more.
        comparability: of these groups; that it permits the comparison is the caller's business.
        rules: how verdicts are made.
    """
    pairs = [compare_pair(groups[0], other, rules) for other in groups[1:]]
    return Comparison(rules, groups, pairs, comparability)


def compare_pair(baseline: RunGroup, other: RunGroup, rules: Rules) -> PairComparison:
    """Compare two groups in every class that both measured and that takes time."""
    keys = [key for key in _measured(baseline) if key.takes_time and key in set(_measured(other))]
    drafts = [_draft(key, baseline, other, rules) for key in keys]
    tested = [one.p for one in drafts if one.p is not None]
    adjusted = iter(inference.holm(tested))
    classes = [replace(one, holm_p=next(adjusted)) if one.p is not None else one for one in drafts]
    decided = [_decided(one, rules, classes=len(tested)) for one in classes]
    return PairComparison(baseline, other, sorted(decided, key=_weight))


def _measured(group: RunGroup) -> list[ClassKey]:
    return sorted({key for run in group.runs for key in run.measurements.classes})


def _weight(one: ClassComparison) -> tuple[bool, float, ClassKey]:
    times = one.baseline.samples / max(one.baseline.runs, 1) * (one.baseline.median_ns or 0.0)
    return one.key.collective != JCT, -times, one.key


def _draft(key: ClassKey, baseline: RunGroup, other: RunGroup, rules: Rules) -> ClassComparison:
    sides = _side(key, baseline, rules.quantile), _side(key, other, rules.quantile)
    tails = _side(key, baseline, TAIL), _side(key, other, TAIL)
    effect = _effect(*sides, rules)
    p = None if effect is None else inference.rank_p(*map(_array, sides))
    tail = _effect(*tails, rules) if [side.runs for side in sides] == [tail.runs for tail in tails] else None
    return ClassComparison(key, *sides, effect, p, None, tail, Verdict.INCONCLUSIVE)


def _side(key: ClassKey, group: RunGroup, quantile: float) -> Side:
    times = [run.measurements.classes[key] for run in group.runs if key in run.measurements.classes]
    values = [value for one in times if (value := one.percentile_ns(quantile))]
    return Side(tuple(values), sum(map(_count, times)))


def _count(times: Times) -> int:
    return len(times)


def _effect(baseline: Side, other: Side, rules: Rules) -> Effect | None:
    if not baseline.runs or not other.runs:
        return None
    values = _array(baseline), _array(other)
    interval = inference.ratio_interval(*values, seed=rules.seed, resamples=rules.resamples)
    return Effect(inference.ratio(*values), interval)


def _array(side: Side) -> Floats:
    return np.array(side.values_ns)


def _decided(draft: ClassComparison, rules: Rules, *, classes: int) -> ClassComparison:
    """The verdict, once it is known how many classes are judged together."""
    if draft.effect is None:
        needed = samples_needed(rules.quantile)
        return replace(draft, why=f"a run needs {needed} measurements for this percentile")
    interval = draft.effect.interval
    enough = inference.least_p(draft.baseline.runs, draft.other.runs) * classes < inference.SIGNIFICANCE
    if interval is None or not enough:
        needs = inference.runs_to_decide(classes)
        plural = f"{classes} classes" if classes != 1 else "1 class"
        return replace(draft, needs=needs, why=f"too few runs to decide {plural}", is_too_few=True)
    if draft.holm_p is not None and draft.holm_p < inference.SIGNIFICANCE and rules.excludes(interval):
        return replace(draft, verdict=Verdict.SLOWER if interval.low > 1 else Verdict.FASTER)
    if rules.contains(interval):
        return replace(draft, verdict=Verdict.NO_DIFFERENCE)
    why = "the interval crosses the margin" if not rules.excludes(interval) else "the rank test does not pass"
    return replace(draft, needs=_needs(draft, rules, classes=classes), why=why)


def _needs(draft: ClassComparison, rules: Rules, *, classes: int) -> int | None:
    """Runs a side that would decide, were the ratio and the spread between runs what they seem to be."""
    assert draft.effect is not None
    gap = abs(abs(np.log(draft.effect.ratio)) - np.log1p(rules.margin))
    narrow = inference.runs_to_narrow(_array(draft.baseline), _array(draft.other), gap=float(gap))
    if narrow is None:
        return None
    more = min(draft.baseline.runs, draft.other.runs) + 1
    return max(narrow, more, inference.runs_to_decide(classes))


def gate(comparison: Comparison, *, is_strict: bool) -> bool:
    """Whether a gate lets this pass: nothing slower; a strict one wants nothing inconclusive either."""
    closed_by: Callable[[Verdict], bool] = comparison.has
    return not closed_by(Verdict.SLOWER) and not (is_strict and closed_by(Verdict.INCONCLUSIVE))
