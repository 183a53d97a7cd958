"""Verdicts on recorded runs, with the real noise of a busy machine, and on made-up runs at the exact limits."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from emulator.results.comparison.comparability import Comparability, RunDifference
from emulator.results.comparison.groups import MeasuredRun, RunGroup
from emulator.results.comparison.verdicts import (
    TAIL,
    ClassComparison,
    ClassSide,
    ClassVerdict,
    ComparisonRules,
    Effect,
    PairComparison,
    compare,
    compare_pair,
)
from emulator.results.statistics.method.bootstrap import Interval
from emulator.results.statistics.samples.classes import JCT, ClassKey
from emulator.results.statistics.samples.iterations import Measurements, Times
from emulator.views.columns.comparison_columns import verdict_text
from tests.support.full import IS_FULL
from tests.support.recorded import group, recorded, slowed
from tests.support.runs import manifest

RULES = ComparisonRules(resamples=999)
COMPARISONS, ALARMS = (200, 16) if IS_FULL else (20, 3)


def drawn(name: str, seed: int, *, runs: int = 6, slower: float = 1.0) -> PairComparison:
    """Two groups drawn from the runs of a set; the second slowed."""
    known = recorded(name)
    chosen = [known[at] for at in np.random.default_rng(seed).permutation(len(known))[: 2 * runs]]
    return compare_pair(group("a", chosen[:runs]), group("b", [slowed(run, slower) for run in chosen[runs:]]), RULES)


def by_size(pair: PairComparison) -> dict[int, ClassComparison]:
    return {one.key.size_bytes: one for one in pair.classes}


@pytest.mark.parametrize("name", ["zmq", "roce", "paced"])
def test_the_same_against_the_same_raises_few_alarms(name: str) -> None:
    """Faster or slower in any class is a false alarm: 5 % of 200 are 10, of 20 are 1; allowed are two standard errors
    more.
    """
    alarms = 0
    for seed in range(COMPARISONS):
        pair = drawn(name, seed)
        alarms += bool(pair.count(ClassVerdict.FASTER) + pair.count(ClassVerdict.SLOWER))
    assert alarms <= ALARMS


def test_a_rate_that_really_was_a_tenth_lower_is_found() -> None:
    """20 against 18 Mbit/s: a ratio of 1.111, within the interval of the classes that the pacer dominates."""
    paced, slower = recorded("paced"), recorded("slower")
    pair = by_size(compare_pair(group("20M", paced[:6]), group("18M", slower[:6]), RULES))
    for size in (8 << 10, 16 << 10, 32 << 10):
        assert pair[size].verdict is ClassVerdict.SLOWER
    for size in (16 << 10, 32 << 10):
        effect = pair[size].effect
        assert effect.interval.low < 20 / 18 < effect.interval.high
    assert pair[4 << 10].verdict is not ClassVerdict.FASTER  # latency, not rate: 4 KiB are one message


def test_steady_classes_of_the_same_show_no_difference() -> None:
    """In every class whose run-to-run variation is at most 1 %."""
    steady = 0
    for seed in range(20):
        for one in drawn("paced", seed).classes:
            if max(one.baseline.variation or 1, one.other.variation or 1) <= 0.01:
                steady += 1
                assert one.verdict is ClassVerdict.NO_DIFFERENCE, (seed, one)
    assert steady > 30


def diluted(seed: int, percent: float | None) -> ClassComparison:
    """32 KiB of the same against the same, measured by a tester that adds this share to the baseline's time."""
    known = recorded("paced")
    chosen = [known[at] for at in np.random.default_rng(seed).permutation(len(known))[:12]]
    if percent is not None:
        key = next(key for key in known[0].measurements.classes if key.size_bytes == 32 << 10)
        chosen = [replace(run, tester_percent={key: percent}) for run in chosen]
    return by_size(compare_pair(group("a", chosen[:6]), group("b", chosen[6:]), RULES))[32 << 10]


@pytest.mark.parametrize(("percent", "is_burst"), [(None, False), (1.0, False), (4.0, True)])
def test_a_class_faster_than_its_ports_hides_a_lower_rate_behind_a_burst(
    percent: float | None, *, is_burst: bool
) -> None:
    """Only where the network's part is compared: the whole time can hide anything in the tester's."""
    known = recorded("paced")[:12]
    key = next(key for key in known[0].measurements.classes if key.size_bytes == 32 << 10)
    bursts = {} if percent is None else {key: percent}
    whole = [replace(run, burst_percent=bursts) for run in known]
    parts = [replace(run, measurements=replace(run.measurements, network=run.measurements.classes)) for run in whole]
    for runs, expected in ((whole, False), (parts, is_burst)):
        one = by_size(compare_pair(group("a", runs[:6]), group("b", runs[6:]), RULES))[32 << 10]
        assert one.is_burst is expected
        assert ("diluted by a burst" in verdict_text(one)) is expected
        assert not one.is_diluted
    assert not replace(one, effect=Effect(3.77, None)).is_burst


@pytest.mark.parametrize(("percent", "verdict"), [(4.0, ClassVerdict.NO_DIFFERENCE), (21.0, ClassVerdict.INCONCLUSIVE)])
def test_no_difference_is_not_said_of_a_rate_that_a_burst_hides(percent: float, verdict: ClassVerdict) -> None:
    known = recorded("paced")[:12]
    key = next(key for key in known[0].measurements.classes if key.size_bytes == 32 << 10)
    runs = [
        replace(
            run, burst_percent={key: percent}, measurements=replace(run.measurements, network=run.measurements.classes)
        )
        for run in known
    ]
    one = by_size(compare_pair(group("a", runs[:6]), group("b", runs[6:]), replace(RULES, margin=0.5)))[32 << 10]
    assert one.verdict is verdict
    assert ("a burst passes at once" in one.why) is (verdict is ClassVerdict.INCONCLUSIVE)


def test_what_the_tester_adds_hides_a_difference_of_the_device() -> None:
    plain, little, much = (diluted(0, percent) for percent in (None, 4.0, 80.0))
    assert (plain.verdict, plain.is_diluted) == (ClassVerdict.NO_DIFFERENCE, False)
    assert (little.verdict, little.is_diluted) == (ClassVerdict.NO_DIFFERENCE, False)
    assert (much.verdict, much.is_diluted) == (ClassVerdict.INCONCLUSIVE, True)
    assert much.why.startswith("the tester's part of the time dilutes")
    assert much.effect == plain.effect, "the ratio is what was measured"
    low, high = plain.effect.interval.low, plain.effect.interval.high
    assert (much.device_interval.low, much.device_interval.high) == pytest.approx((5 * low - 4, 5 * high - 4))
    assert much.finds == pytest.approx(5 * plain.finds - 4)


@pytest.mark.parametrize(
    ("runs", "verdict"), [(2, ClassVerdict.INCONCLUSIVE), (4, ClassVerdict.INCONCLUSIVE), (5, ClassVerdict.SLOWER)]
)
def test_too_few_runs_are_never_enough_and_never_equal(runs: int, verdict: ClassVerdict) -> None:
    """Five classes need five runs a side, however clear the difference."""
    for slower in (2.0, 1.0):
        pair = drawn("paced", 3, runs=runs, slower=slower)
        if runs < 5:
            assert {(one.verdict, one.needs) for one in pair.classes} == {(ClassVerdict.INCONCLUSIVE, 5)}
        elif slower > 1:
            assert {one.verdict for one in pair.classes} == {verdict}


def test_a_run_more_on_one_side_counts() -> None:
    known = recorded("paced")
    pair = compare_pair(group("a", known[:8]), group("b", [slowed(run, 1.5) for run in known[8:12]]), RULES)
    assert {one.verdict for one in pair.classes} == {ClassVerdict.SLOWER}  # 2 / 495, five classes
    assert {(one.baseline.runs, one.other.runs) for one in pair.classes} == {(8, 4)}


def test_the_tail_does_not_influence_the_verdict() -> None:
    known = recorded("roce")
    pair = compare_pair(group("a", known[0:12:2]), group("b", known[1:12:2]), RULES)
    assert all(one.tail is not None for one in pair.classes)
    few = compare_pair(group("a", recorded("paced")[:6]), group("b", recorded("paced")[6:12]), RULES)
    assert all(one.tail is None for one in few.classes)  # 40 iterations carry no p99


KEY = ClassKey("all_reduce", 2, 1000, "ring")
MARGIN = 0.03


def timed(name: str, *medians: float, count: int = 1, key: ClassKey = KEY) -> RunGroup:
    """A group of runs with `count` measurements each, all of the run's median."""
    runs = []
    for number, median in enumerate(medians):
        times = Times(np.arange(count), np.full(count, median))
        created = f"2026-01-02T00:{number:02}:00+00:00"
        runs.append(
            MeasuredRun(Path(f"{name}/{number}"), manifest(created=created), Measurements({key: times}, incomplete=0))
        )
    return RunGroup(name, runs)


def only(baseline: RunGroup, other: RunGroup, rules: ComparisonRules = RULES) -> ClassComparison:
    (found,) = compare_pair(baseline, other, rules).classes
    return found


@pytest.mark.parametrize(
    ("low", "high", "contains", "excludes"),
    [
        (1 / (1 + MARGIN), 1 + MARGIN, True, False),
        (np.nextafter(1 / (1 + MARGIN), 0), 1, False, False),
        (1, np.nextafter(1 + MARGIN, 2), False, False),
        (1 + MARGIN, 1.2, False, False),
        (np.nextafter(1 + MARGIN, 2), 1.2, False, True),
        (0.8, 1 / (1 + MARGIN), False, False),
        (0.8, np.nextafter(1 / (1 + MARGIN), 0), False, True),
        (0.9, 1.1, False, False),
        (1, 1, True, False),
    ],
)
def test_the_margin_includes_its_limits(low: float, high: float, contains: bool, excludes: bool) -> None:
    rules = ComparisonRules(margin=MARGIN)
    assert rules.contains(Interval(float(low), float(high))) is contains
    assert rules.excludes(Interval(float(low), float(high))) is excludes


@given(st.floats(0.001, 1), st.floats(0.5, 2), st.floats(1, 2))
def test_an_interval_is_never_both_inside_and_outside(margin: float, low: float, width: float) -> None:
    rules, interval = ComparisonRules(margin=margin), Interval(low, low * width)
    assert not (rules.contains(interval) and rules.excludes(interval))


def test_a_difference_that_every_run_shows_is_a_verdict_in_either_direction() -> None:
    fast, slow = timed("a", *range(1000, 1006)), timed("b", *range(1100, 1106))
    there, back = only(fast, slow), only(slow, fast)
    assert (there.verdict, back.verdict) == (ClassVerdict.SLOWER, ClassVerdict.FASTER)
    assert there.p == back.p == pytest.approx(2 / 924)
    assert (there.needs, there.why, there.is_too_few) == (None, "", False)
    assert there.effect.ratio == pytest.approx(1.1, rel=0.001)


def test_equal_runs_show_no_difference() -> None:
    assert only(timed("a", *[1000] * 4), timed("b", *[1000] * 4)).verdict is ClassVerdict.NO_DIFFERENCE


def test_a_significant_difference_within_the_margin_is_no_difference() -> None:
    found = only(timed("a", *range(1000, 1006)), timed("b", *range(1010, 1016)))
    assert found.holm_p < 0.05
    assert found.verdict is ClassVerdict.NO_DIFFERENCE


def test_an_interval_across_the_margin_is_inconclusive_and_names_the_runs_it_needs() -> None:
    found = only(timed("a", *range(1000, 1060, 10)), timed("b", *range(1030, 1090, 10)))
    assert (found.verdict, found.why) == (ClassVerdict.INCONCLUSIVE, "the interval crosses the margin")
    assert found.needs is None or found.needs > 6


def test_a_large_difference_without_significance_is_inconclusive() -> None:
    """Two of four runs are slow: the ratio is far outside the margin, and p = 0.11."""
    found = only(timed("a", 1000, 1001, 1002, 1003), timed("b", 1001.5, 1200, 1201, 1202))
    assert found.holm_p == pytest.approx(stats.mannwhitneyu([0, 1, 2, 3], [1.5, 9, 10, 11], method="exact").pvalue)
    assert found.verdict is ClassVerdict.INCONCLUSIVE


@pytest.mark.parametrize(("runs", "is_decided"), [(2, False), (3, False), (4, True)])
def test_one_class_needs_four_runs_a_side(runs: int, is_decided: bool) -> None:
    found = only(timed("a", *range(1000, 1000 + runs)), timed("b", *range(2000, 2000 + runs)))
    assert (found.verdict is ClassVerdict.SLOWER) is is_decided
    if not is_decided:
        assert (found.needs, found.why, found.is_too_few) == (4, "too few runs to decide 1 class", True)


def test_a_single_run_a_side_has_a_ratio_but_no_interval() -> None:
    found = only(timed("a", 1000), timed("b", 1500))
    assert found.effect == Effect(pytest.approx(1.5), None)
    assert (found.p, found.verdict, found.is_too_few) == (1, ClassVerdict.INCONCLUSIVE, True)


def test_a_percentile_that_no_run_has_is_inconclusive() -> None:
    found = only(timed("a", 1, 2, count=99), timed("b", 1, 2, count=99), ComparisonRules(quantile=TAIL, resamples=99))
    assert (found.effect, found.p, found.holm_p, found.needs) == (None, None, None, None)
    assert found.why == "a run needs 100 measurements for this percentile"
    assert (found.baseline.median_ns, found.baseline.variation, found.baseline.runs) == (None, None, 0)
    assert found.baseline.samples == 198


def test_the_tail_is_compared_if_every_run_has_one() -> None:
    enough, too_few = timed("a", 1000, 1000, count=100), timed("b", 1500, 1500, count=99)
    assert only(enough, enough).tail == Effect(pytest.approx(1), Interval(pytest.approx(1), pytest.approx(1)))
    assert only(enough, too_few).tail is None


def test_classes_that_take_no_time_or_that_one_group_lacks_are_not_compared() -> None:
    nothing = ClassKey("all_reduce", 1, 1000, "ring")
    assert compare_pair(timed("a", 1, key=nothing), timed("b", 1, key=nothing), RULES).classes == []
    assert compare_pair(timed("a", 1), timed("b", 1, key=nothing), RULES).classes == []


def test_the_iteration_comes_first_then_the_classes_by_time_spent() -> None:
    small, large, jct = ClassKey("all_reduce", 2, 8), ClassKey("all_reduce", 2, 9), ClassKey(JCT, 2)
    times = {
        small: Times(np.arange(10), np.full(10, 30)),
        large: Times(np.arange(2), np.full(2, 100)),
        jct: Times(np.arange(1), np.full(1, 5)),
    }
    group = RunGroup("a", [MeasuredRun(Path("a"), manifest(), Measurements(times, 0))])
    assert [one.key for one in compare_pair(group, group, RULES).classes] == [jct, small, large]


def test_p_values_are_corrected_for_all_classes_together() -> None:
    keys = [ClassKey("all_reduce", 2, size) for size in (1, 2)]

    def group(*scales: float) -> RunGroup:
        runs = [timed("x", *(1000 + n for n in range(6))).runs for _ in keys]
        return RunGroup(
            "x",
            [
                replace(one, measurements=Measurements(_scaled(keys, scales, number), 0))
                for number, one in enumerate(runs[0])
            ],
        )

    found = compare_pair(group(1, 1), group(1.5, 1), RULES).classes
    by_size = {one.key.size_bytes: one for one in found}
    assert by_size[1].holm_p == pytest.approx(2 * 2 / 924)
    assert by_size[2].holm_p == 1
    assert [by_size[n].verdict for n in (1, 2)] == [ClassVerdict.SLOWER, ClassVerdict.NO_DIFFERENCE]


def _scaled(keys: list[ClassKey], scales: tuple[float, ...], number: int) -> dict[ClassKey, Times]:
    one = np.zeros(1, np.int64)
    return {key: Times(one, np.array([scale * (1000 + number)])) for key, scale in zip(keys, scales, strict=True)}


@pytest.mark.parametrize(
    ("scales", "passes", "passes_strict"),
    [((1.0,), True, True), ((0.5,), True, True), ((2.0,), False, False), ((1.0, 2.0), False, False)],
)
def test_a_gate_does_not_pass_what_is_slower(scales: tuple[float, ...], passes: bool, passes_strict: bool) -> None:
    medians = range(1000, 1006)
    groups = [
        timed("a", *medians),
        *(timed(f"b{n}", *(scale * one for one in medians)) for n, scale in enumerate(scales)),
    ]
    found = compare(groups, Comparability([], []), RULES)
    assert found.passes_gate(is_strict=False) is passes
    assert found.passes_gate(is_strict=True) is passes_strict
    assert len(found.pairs) == len(scales)
    assert not found.is_forced


def test_only_a_strict_gate_stops_what_is_inconclusive() -> None:
    found = compare([timed("a", 1000), timed("b", 1000)], Comparability([RunDifference("ranks", {})], []), RULES)
    assert (found.passes_gate(is_strict=False), found.passes_gate(is_strict=True)) == (True, False)
    assert found.is_forced


def test_the_rules_reach_the_bootstrap() -> None:
    baseline, other = timed("a", *range(1000, 1060, 10)), timed("b", *range(1000, 1090, 15))
    intervals = [
        only(baseline, other, ComparisonRules(seed=seed, resamples=resamples)).effect
        for seed, resamples in [(1, 99), (1, 99), (2, 99)]
    ]
    assert intervals[0] == intervals[1] != intervals[2]


def test_the_median_of_an_even_number_of_runs_is_between_the_two_in_the_middle() -> None:
    side = ClassSide((10.0, 20.0, 40.0, 30.0), 4)
    assert (side.median_ns, side.runs) == (25, 4)
    assert side.variation == pytest.approx(np.std(side.values_ns, ddof=1) / 25)


def in_turns(ratios: tuple[float, ...], *, drift: float = 0.03, order: str = "ABBA") -> tuple[RunGroup, RunGroup]:
    """Two groups taken in turns on a host that becomes slower by `drift` a run."""
    groups = timed("a", *(1000.0,) * len(ratios)), timed("b", *(1000.0,) * len(ratios))
    found: tuple[list[MeasuredRun], list[MeasuredRun]] = ([], [])
    for pair, ratio in enumerate(ratios):
        turn = order[:2] if pair % 2 == 0 else order[2:]
        for side, letter in enumerate("AB"):
            minute = 2 * pair + turn.index(letter)
            median = 1000 * (1 + drift) ** minute * (ratio if side else 1.0)
            run = groups[side].runs[pair]
            created = f"2026-01-02T00:{minute:02}:00+00:00"
            measured = Measurements({KEY: Times(np.arange(1), np.full(1, median))}, incomplete=0)
            found[side].append(replace(run, manifest=replace(run.manifest, created=created), measurements=measured))
    return RunGroup("a", found[0]), RunGroup("b", found[1])


SPREAD = (0.998, 1.001, 1.003, 0.999, 1.002, 0.9975, 1.0015, 0.9985, 1.0005, 1.0025)


@pytest.mark.parametrize("order", ["ABAB", "ABBA"])
@pytest.mark.parametrize(("factor", "verdict"), [(1.0, ClassVerdict.NO_DIFFERENCE), (1.05, ClassVerdict.SLOWER)])
def test_a_drift_cancels_in_runs_that_were_taken_in_turns(order: str, factor: float, verdict: ClassVerdict) -> None:
    pair = compare_pair(*in_turns(tuple(factor * one for one in SPREAD), order=order), RULES)
    (found,) = pair.classes
    assert (pair.is_paired, found.verdict) == (True, verdict)
    assert found.effect.ratio == pytest.approx(factor, rel=2e-3)


def test_the_same_runs_taken_one_after_the_other_decide_nothing() -> None:
    a, b = in_turns(tuple(1.05 * one for one in SPREAD))
    later = [
        replace(run, manifest=replace(run.manifest, created=f"2026-01-03T00:{number:02}:00+00:00"))
        for number, run in enumerate(b.runs)
    ]
    pair = compare_pair(a, RunGroup("b", later), RULES)
    assert (pair.is_paired, pair.classes[0].verdict) == (False, ClassVerdict.INCONCLUSIVE)


@pytest.mark.parametrize(("quantile", "steady"), [(0.5, {16, 32}), (0.25, {0, 16, 32})])
def test_three_percent_is_found_with_ten_pairs_where_runs_are_steady(quantile: float, steady: set[int]) -> None:
    """Of recorded runs on a busy host; in 100 draws 8 KiB is found 95 (p25: 97) times, JCT 65 (p25: 100) times."""
    known, rules = recorded("paced"), replace(RULES, margin=0.01, quantile=quantile, find=0.03)
    for seed in range(100 if IS_FULL else 4):
        chosen = [known[at] for at in np.random.default_rng(seed).permutation(len(known))[:20]]
        runs = [
            replace(run, manifest=replace(run.manifest, created=f"2026-01-02T00:{minute:02}:00+00:00"))
            for minute, run in enumerate(chosen)
        ]
        pair = compare_pair(group("a", runs[::2]), group("b", [slowed(run, 1.03) for run in runs[1::2]]), rules)
        assert pair.is_paired
        for one in pair.classes:
            if one.key.size_bytes >> 10 in steady:
                assert one.verdict is ClassVerdict.SLOWER, (seed, one)
            if one.key.size_bytes == 4 << 10:  # a single message: pairs differ by 5 %
                assert one.finds > 1.06
                assert one.needs_to_find is None or one.needs_to_find > 50


def test_so_many_runs_find_a_difference_but_never_fewer_than_the_test_needs() -> None:
    pair = compare_pair(*in_turns(SPREAD[:6]), replace(RULES, margin=0.0, find=0.5))
    assert pair.classes[0].needs_to_find == 6  # of the exact signed-rank test
    assert only(timed("a", 1000), timed("b", 1500)).finds is None


def test_fewer_pairs_than_the_signed_rank_test_needs_are_compared_as_groups() -> None:
    assert compare_pair(*in_turns(SPREAD[:6]), RULES).is_paired
    assert not compare_pair(*in_turns(SPREAD[:5]), RULES).is_paired
