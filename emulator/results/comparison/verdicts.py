"""Comparison of groups of runs, class by class: effect and interval first, then the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from emulator.results.comparison import inference
from emulator.results.comparison.comparability import Comparability, network_of
from emulator.results.comparison.groups import MeasuredRun, RunGroup, are_apart, take_turns
from emulator.results.comparison.inference import Floats
from emulator.results.comparison.uncertainty import of_ratio, over_runs, reaching
from emulator.results.statistics.method.bootstrap import RESAMPLES, Interval
from emulator.results.statistics.method.descriptive import samples_needed, variation
from emulator.results.statistics.samples.classes import JCT, ClassKey
from emulator.results.statistics.uncertainty import Budget

MEDIAN, TAIL = 0.5, 0.99
DILUTED_PERCENT, MOST_DILUTED_PERCENT = 5.0, 90.0
"""From this share of the tester in the time on, a row says so; a larger share than the second is taken for that one."""
BURST_PERCENT, HIDING_PERCENT, LARGE_TO_BURST = 2.0, 10.0, 10
"""In a class so much faster than its ports' rates allow, a burst hides a lower rate: of 3 % less, 1 MiB through a
bucket of 48 KB showed 1.7 % (lab.benchmarks.verdicts compare). From the second on it can hide all that a gate asks
for: of 7 % less, 256 KiB, which were 21 % faster than the rates, showed less than 5 %."""


class ClassVerdict(Enum):
    """Verdict on a class. "No difference shown": the interval lies within the margin. It does not prove equality."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no difference shown"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class ComparisonRules:
    """How verdicts are reached.

    Attributes:
        margin: largest difference that does not matter in practice, as a fraction. 0.03 allows ratios from 1 / 1.03 to
            1.03, both included.
        quantile: of the measurements of a run, the number that represents the run; 0.5 is the median.
        seed, resamples: of the bootstrap.
        find: difference for which the number of runs is estimated, a fraction above `margin`; None: it is not.
    """

    margin: float = 0.03
    quantile: float = MEDIAN
    seed: int = 0
    resamples: int = RESAMPLES
    find: float | None = None

    def contains(self, interval: Interval) -> bool:
        """The whole interval lies within the margin."""
        return 1 / (1 + self.margin) <= interval.low and interval.high <= 1 + self.margin

    def excludes(self, interval: Interval) -> bool:
        """The whole interval lies outside the margin, on one side."""
        return interval.low > 1 + self.margin or interval.high < 1 / (1 + self.margin)


@dataclass(frozen=True, slots=True)
class ClassSide:
    """A class in one group.

    Attributes:
        values_ns: one number per run that has one, in the order of the runs of the group.
        samples: measurements behind them.
        uncertainty: of the time over all these runs; None without runs.
    """

    values_ns: tuple[float, ...]
    samples: int
    uncertainty: Budget | None = None

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
    """Times of the other group over those of the baseline: above 1 is slower; `interval` at 95 %.

    That of a verdict also has what is not by chance, see `uncertainty.reaching`.
    """

    ratio: float
    interval: Interval | None


def _of_device(ratio: float, tester_percent: float | None) -> float:
    """A ratio of times without the constant part that the tester adds to both; as it is if that is not known."""
    share = _share(tester_percent)
    return (ratio - share) / (1 - share)


def _share(tester_percent: float | None) -> float:
    return min(max(tester_percent or 0.0, 0.0), MOST_DILUTED_PERCENT) / 100


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
        ratios: of pairs, corrected for drift; empty if the runs are not compared in pairs.
        is_too_few: there are fewer runs than the rank test needs; `needs` is the smallest number that it can use.
        finds: the smallest ratio above 1 of the device's time that 95 of 100 comparisons with as many runs of this
            spread find.
        needs_to_find: runs a side with which they find `Rules.find`; None if it is not given or over 100 are needed.
        tester_percent: of the baseline's time, what the tester adds; median over its runs. None: not known, or nothing:
            the times are the network's.
        burst_percent: by how much the network's part of the baseline is faster than its ports' rates allow; median over
            its runs. None: it is not, or the whole times are compared.
        is_network: the times are the network's part of cct, which all runs of both groups know.
        cct_ns: median over the runs of either group of what represents them, of the whole time.
        uncertainty: of the ratio; None without one.
    """

    key: ClassKey
    baseline: ClassSide
    other: ClassSide
    effect: Effect | None
    p: float | None
    holm_p: float | None
    tail: Effect | None
    verdict: ClassVerdict
    needs: int | None = None
    why: str = ""
    is_too_few: bool = False
    ratios: tuple[float, ...] = ()
    finds: float | None = None
    needs_to_find: int | None = None
    tester_percent: float | None = None
    burst_percent: float | None = None
    is_network: bool = False
    cct_ns: tuple[float | None, float | None] = (None, None)
    uncertainty: Budget | None = None

    @property
    def is_diluted(self) -> bool:
        """The tester's part of the time makes a difference of the device look notably smaller."""
        return self.tester_percent is not None and self.tester_percent >= DILUTED_PERCENT

    @property
    def is_burst(self) -> bool:
        """A burst that passes at once hides a notable part of the difference: a large one shows all the same."""
        if self.burst_percent is None or self.burst_percent < BURST_PERCENT:
            return False
        return self.effect is None or abs(self.effect.ratio - 1) < LARGE_TO_BURST * self.burst_percent / 100

    @property
    def device_interval(self) -> Interval | None:
        """The interval of the ratio of the device's times, if the tester added to both sides what it added to A's."""
        if self.effect is None or self.effect.interval is None:
            return None
        interval = self.effect.interval
        return Interval(*(_of_device(one, self.tester_percent) for one in (interval.low, interval.high)))


@dataclass(frozen=True, slots=True)
class PairComparison:
    """A group against the baseline: the iteration first, then the classes that take most time.

    Attributes:
        is_paired: the runs were taken in turns and are compared in pairs, see inference.py.
    """

    baseline: RunGroup
    other: RunGroup
    classes: Sequence[ClassComparison]
    is_paired: bool = False

    def count(self, verdict: ClassVerdict) -> int:
        """Number of classes with this verdict."""
        return sum(one.verdict is verdict for one in self.classes)


@dataclass(frozen=True, slots=True)
class GroupComparison:
    """Every group against the first one."""

    rules: ComparisonRules
    groups: Sequence[RunGroup]
    pairs: Sequence[PairComparison]
    comparability: Comparability

    @property
    def is_undecided(self) -> bool:
        """No class of any pair has a verdict."""
        return all(pair.count(ClassVerdict.INCONCLUSIVE) == len(pair.classes) for pair in self.pairs)

    @property
    def is_forced(self) -> bool:
        """Made although the runs are not comparable."""
        return bool(self.comparability.refused)

    def has(self, verdict: ClassVerdict) -> bool:
        """Whether any class of any pair has this verdict."""
        return any(pair.count(verdict) for pair in self.pairs)

    def passes_gate(self, *, is_strict: bool) -> bool:
        """Whether nothing is slower; a strict gate does not pass inconclusive classes either."""
        return not self.has(ClassVerdict.SLOWER) and not (is_strict and self.has(ClassVerdict.INCONCLUSIVE))


def compare(groups: Sequence[RunGroup], comparability: Comparability, rules: ComparisonRules) -> GroupComparison:
    """Compare every group with the first.

    Args:
        groups: two or more.
        comparability: of these groups. The caller decides whether to compare groups that are not comparable.
        rules: for the verdicts.
    """
    pairs = [compare_pair(groups[0], other, rules) for other in groups[1:]]
    return GroupComparison(rules, groups, pairs, comparability)


def compare_pair(baseline: RunGroup, other: RunGroup, rules: ComparisonRules) -> PairComparison:
    """Compare two groups in every class that both measured and that takes time.

    In pairs if the runs were taken in turns, and if there are enough of them for the signed-rank test to decide.
    """
    keys = sorted(key for key in _measured(baseline) & _measured(other) if key.takes_time)
    is_paired = take_turns(baseline.runs, other.runs) and len(baseline.runs) >= inference.pairs_to_decide(len(keys))
    least = _runs_to_decide(len(keys), is_paired=is_paired)
    classes = [_compare_class(key, baseline, other, rules, least=least, is_paired=is_paired) for key in keys]
    adjusted = iter(inference.holm([one.p for one in classes if one.p is not None]))
    classes = [one if one.p is None else replace(one, holm_p=next(adjusted)) for one in classes]
    tests = sum(one.p is not None for one in classes)
    decided = sorted((_decide(one, rules, tests=tests, is_paired=is_paired) for one in classes), key=_sort_key)
    return PairComparison(baseline, other, decided, is_paired)


def _measured(group: RunGroup) -> set[ClassKey]:
    return {key for run in group.runs for key in run.measurements.classes}


def _sort_key(one: ClassComparison) -> tuple[bool, float, ClassKey]:
    """JCT first, then by time spent in the class."""
    time_ns = one.baseline.samples / max(one.baseline.runs, 1) * (one.baseline.median_ns or 0.0)
    return one.key.collective != JCT, -time_ns, one.key


def _compare_class(
    key: ClassKey, baseline: RunGroup, other: RunGroup, rules: ComparisonRules, *, least: int, is_paired: bool
) -> ClassComparison:
    """Everything but the verdict, which depends on the number of classes; `least`: runs without which there is none."""
    compare_sides = _compare_pairs if is_paired else _compare_groups
    is_network = all(
        key in run.measurements.network for group in (baseline, other) for run in group.runs if _has(run, key)
    )
    chosen = _network_of if is_network else _unchanged
    measured = compare_sides(key, chosen(baseline), chosen(other), rules, rules.quantile)
    tail = compare_sides(key, chosen(baseline), chosen(other), rules, TAIL)
    tester_percent = None if is_network else _median_of(key, [run.tester_percent for run in baseline.runs])
    finds, needs_to_find = _power(measured, rules, least=least, is_paired=is_paired, tester_percent=tester_percent)
    budgets = [_budgets(key, group, is_network=is_network) for group in (baseline, other)]
    uncertainty = _of_ratio(measured, (baseline, other), budgets, is_paired=is_paired)
    first, second = map(_stated, measured.sides, budgets)
    is_tail_whole = [side.runs for side in measured.sides] == [side.runs for side in tail.sides]
    return ClassComparison(
        key,
        first,
        second,
        _reaching(measured.effect, uncertainty),
        measured.p,
        None,
        tail.effect if is_tail_whole else None,
        ClassVerdict.INCONCLUSIVE,
        ratios=measured.ratios,
        finds=finds,
        needs_to_find=needs_to_find,
        tester_percent=tester_percent,
        burst_percent=_median_of(key, [run.burst_percent for run in baseline.runs]) if is_network else None,
        is_network=is_network,
        cct_ns=(_median(key, baseline, rules.quantile), _median(key, other, rules.quantile)),
        uncertainty=uncertainty,
    )


def _budgets(key: ClassKey, group: RunGroup, *, is_network: bool) -> list[Budget]:
    """What every run knows of the error of the median that is compared; empty if one knows nothing."""
    name = "jct_ns" if key.collective == JCT else "network_p50_ns" if is_network else "cct_p50_ns"
    found = [run.uncertainty.get(key, {}).get(name) for run in group.runs if _has(run, key)]
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else []


def _stated(side: ClassSide, budgets: Sequence[Budget]) -> ClassSide:
    return replace(side, uncertainty=over_runs(side.array, budgets)) if side.runs else side


def _of_ratio(
    of: _MeasuredClass, groups: tuple[RunGroup, RunGroup], budgets: Sequence[Sequence[Budget]], *, is_paired: bool
) -> Budget | None:
    if of.effect is None:
        return None
    baseline, other = groups
    first, second = (side.runs for side in of.sides)
    runs = f"{second} pairs of runs" if is_paired else f"{second} runs against {first}"
    networks = [network_of(run.manifest) for group in groups for run in group.runs]
    why, ports = "", ""
    if are_apart(baseline.runs, other.runs):
        why = "one group was measured after the other: a drift of the tester is not known"
    if any(one != networks[0] for one in networks):
        ports = "the topologies differ: how far the rates of their ports are off does not cancel"
    count, sides = min(first, second), (budgets[0], budgets[1])
    return of_ratio(of.effect.ratio, of.effect.interval, sides, count=count, runs=runs, why=why, other_ports=ports)


def _reaching(effect: Effect | None, budget: Budget | None) -> Effect | None:
    if effect is None or effect.interval is None or budget is None:
        return effect
    return replace(effect, interval=reaching(effect.interval, budget))


def _has(run: MeasuredRun, key: ClassKey) -> bool:
    return key in run.measurements.classes


def _network_of(group: RunGroup) -> RunGroup:
    """The same runs with the network's part of their times."""
    runs = [
        replace(run, measurements=replace(run.measurements, classes=run.measurements.network)) for run in group.runs
    ]
    return replace(group, runs=runs)


def _unchanged(group: RunGroup) -> RunGroup:
    return group


def _median(key: ClassKey, group: RunGroup, quantile: float) -> float | None:
    known = [one for one in _values(key, group, quantile) if one is not None]
    return float(np.median(known)) if known else None


def _median_of(key: ClassKey, shares: Sequence[Mapping[ClassKey, float]]) -> float | None:
    known = [one[key] for one in shares if key in one]
    return float(np.median(known)) if known else None


class _MeasuredClass(NamedTuple):
    """Two sides of a class, their effect and p; None if a side has no number."""

    sides: tuple[ClassSide, ClassSide]
    effect: Effect | None
    p: float | None
    ratios: tuple[float, ...] = ()


def _spread(sides: tuple[ClassSide, ClassSide], ratios: Sequence[float], *, is_paired: bool) -> inference.RunSpread:
    if is_paired:
        return inference.spread_of_pairs(np.array(ratios))
    return inference.spread_of_groups(sides[0].array, sides[1].array)


def _power(
    measured: _MeasuredClass, rules: ComparisonRules, *, least: int, is_paired: bool, tester_percent: float | None
) -> tuple[float | None, int | None]:
    """What comparisons with runs of this spread find, and how many find `rules.find`; None if nothing is known.

    Both are about the device: with a share of the tester in the time, the difference measured is that much smaller.
    """
    runs = min(side.runs for side in measured.sides)
    if runs < inference.MIN_RUNS:
        return None, None
    spread = _spread(measured.sides, measured.ratios, is_paired=is_paired)
    found, needs = spread.smallest_found(runs, margin=rules.margin), None
    if rules.find is not None:
        measured_find = rules.find * (1 - _share(tester_percent))
        needs = spread.runs_to_find(1 + measured_find, margin=rules.margin) if measured_find > rules.margin else None
    return found and _of_device(found, tester_percent), needs and max(needs, least)


def _compare_groups(
    key: ClassKey, baseline: RunGroup, other: RunGroup, rules: ComparisonRules, quantile: float
) -> _MeasuredClass:
    found = [[one for one in _values(key, group, quantile) if one is not None] for group in (baseline, other)]
    sides = ClassSide(tuple(found[0]), _samples(key, baseline)), ClassSide(tuple(found[1]), _samples(key, other))
    if not all(side.runs for side in sides):
        return _MeasuredClass(sides, None, None)
    values = sides[0].array, sides[1].array
    interval = inference.ratio_interval(*values, seed=rules.seed, resamples=rules.resamples)
    return _MeasuredClass(sides, Effect(inference.ratio(*values), interval), inference.rank_test_p(*values))


def _compare_pairs(
    key: ClassKey, baseline: RunGroup, other: RunGroup, rules: ComparisonRules, quantile: float
) -> _MeasuredClass:
    """Of pairs in which both runs have a number."""
    pairs = [
        (first, second, first_run.began_s, second_run.began_s)
        for first, second, first_run, second_run in zip(
            _values(key, baseline, quantile), _values(key, other, quantile), baseline.runs, other.runs, strict=True
        )
        if first is not None and second is not None
    ]
    columns = np.array(pairs, np.float64).reshape(-1, 4).T
    sides = (
        ClassSide(tuple(columns[0].tolist()), _samples(key, baseline)),
        ClassSide(tuple(columns[1].tolist()), _samples(key, other)),
    )
    if len(pairs) < inference.MIN_RUNS:
        return _MeasuredClass(sides, None, None)
    ratios = inference.pair_ratios(columns[0], columns[1], baseline_at=columns[2], other_at=columns[3])
    interval = inference.location_interval(ratios, seed=rules.seed, resamples=rules.resamples)
    effect = Effect(inference.location(ratios), interval)
    return _MeasuredClass(sides, effect, inference.signed_rank_p(ratios), tuple(ratios.tolist()))


def _values(key: ClassKey, group: RunGroup, quantile: float) -> list[float | None]:
    """The number of each run of a group; None if it has none, or 0."""
    times = [run.measurements.classes.get(key) for run in group.runs]
    return [None if one is None else one.percentile_ns(quantile) or None for one in times]


def _samples(key: ClassKey, group: RunGroup) -> int:
    return sum(len(run.measurements.classes[key]) for run in group.runs if key in run.measurements.classes)


def _decide(one: ClassComparison, rules: ComparisonRules, *, tests: int, is_paired: bool) -> ClassComparison:
    """Add the verdict.

    Args:
        one: an inconclusive comparison.
        rules: for the verdict.
        tests: number of classes that are tested together.
        is_paired: runs are compared in pairs.
    """
    if one.effect is None:
        needed = samples_needed(rules.quantile)
        return replace(one, why=f"a run needs {needed} measurements for this percentile")
    interval = one.effect.interval
    sides = one.baseline.runs, one.other.runs
    smallest = inference.smallest_paired_p(sides[0]) if is_paired else inference.smallest_p(*sides)
    if interval is None or smallest * tests >= inference.SIGNIFICANCE:
        needs = _runs_to_decide(tests, is_paired=is_paired)
        plural = f"{tests} classes" if tests != 1 else "1 class"
        return replace(one, needs=needs, why=f"too few runs to decide {plural}", is_too_few=True)
    is_significant = one.holm_p is not None and one.holm_p < inference.SIGNIFICANCE
    is_within = one.uncertainty is not None and one.uncertainty.towards(better=False) >= abs(one.effect.ratio - 1)
    if is_significant and rules.excludes(interval) and not is_within:
        return replace(one, verdict=ClassVerdict.SLOWER if interval.low > 1 else ClassVerdict.FASTER)
    device = one.device_interval
    if device is not None and rules.contains(device):
        if one.is_burst and (one.burst_percent or 0) >= HIDING_PERCENT:
            return replace(one, why="a burst passes at once and can hide a lower rate: take a larger size")
        return replace(one, verdict=ClassVerdict.NO_DIFFERENCE)
    if rules.contains(interval):
        return replace(one, why="the tester's part of the time dilutes the difference: take a larger size")
    why = "the interval crosses the margin"
    if rules.excludes(interval):
        why = "the difference is within its uncertainty" if is_significant else "the rank test is not significant"
    return replace(one, needs=_runs_needed(one, one.effect, rules, tests=tests, is_paired=is_paired), why=why)


def _runs_needed(
    one: ClassComparison, effect: Effect, rules: ComparisonRules, *, tests: int, is_paired: bool
) -> int | None:
    """Runs a side that would decide if the ratio and the spread between runs stayed the same."""
    gap = abs(abs(np.log(effect.ratio)) - np.log1p(rules.margin))
    narrow = _spread((one.baseline, one.other), one.ratios, is_paired=is_paired).runs_to_narrow(float(gap))
    if narrow is None:
        return None
    return max(narrow, min(one.baseline.runs, one.other.runs) + 1, _runs_to_decide(tests, is_paired=is_paired))


def _runs_to_decide(classes: int, *, is_paired: bool) -> int:
    return inference.pairs_to_decide(classes) if is_paired else inference.runs_to_decide(classes)
