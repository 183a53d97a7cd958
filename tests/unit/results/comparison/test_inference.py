import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from emulator.results.comparison.inference import (
    MAX_RUNS,
    MIN_RUNS,
    RunSpread,
    holm,
    location,
    location_interval,
    pair_ratios,
    pairs_to_decide,
    rank_test_p,
    ratio,
    ratio_interval,
    runs_to_decide,
    signed_rank_p,
    smallest_p,
    smallest_paired_p,
    spread_of_groups,
    spread_of_pairs,
)
from tests.support.full import IS_FULL

SIX = np.array([100.0, 101, 102, 103, 104, 105])


def test_exchanging_the_groups_turns_ratio_and_interval_around() -> None:
    there, back = ratio_interval(SIX, SIX * 1.2, seed=1), ratio_interval(SIX * 1.2, SIX, seed=1)
    assert there.low == pytest.approx(1 / back.high, rel=0.005)
    assert there.low < 1.2 < there.high


def test_one_run_a_side_has_no_interval() -> None:
    assert ratio_interval(SIX[:1], SIX) is None
    assert ratio_interval(SIX, SIX[:1]) is None


@pytest.mark.slow
@pytest.mark.parametrize("runs", [4, 6, 12])
@pytest.mark.parametrize("shape", ["normal", "heavy", "skewed"])
def test_the_interval_holds_the_truth_as_often_as_it_says(runs: int, shape: str) -> None:
    random = np.random.default_rng(runs)
    draw = {
        "normal": lambda: random.normal(0, 0.01, runs),
        "heavy": lambda: 0.006 * random.standard_t(3, runs),
        "skewed": lambda: 0.006 * random.lognormal(0, 1, runs),
    }[shape]
    held, trials = 0, 400 if IS_FULL else 100
    for seed in range(trials):
        interval = ratio_interval(np.exp(draw()), np.exp(draw()), seed=seed, resamples=999)
        held += interval.low <= 1 <= interval.high
    assert held / trials >= 0.95 - 2 * math.sqrt(0.95 * 0.05 / trials)  # two standard errors of such a count


@pytest.mark.parametrize(("runs", "p"), [(4, 0.0286), (5, 0.00794), (6, 0.00216), (8, 0.000155)])
def test_so_many_runs_a_side_bound_the_p_that_can_be_reached(runs: int, p: float) -> None:
    assert smallest_p(runs, runs) == pytest.approx(p, rel=0.01)
    apart = rank_test_p(np.arange(1.0, runs + 1), np.arange(101.0, runs + 101))
    assert apart == pytest.approx(smallest_p(runs, runs))


def test_ties_are_tested_exactly_too() -> None:
    assert rank_test_p(np.full(100, 5.0), np.full(100, 5.0)) == 1
    assert rank_test_p(np.array([1.0, 1, 2, 2]), np.array([3.0, 3, 4, 4])) == pytest.approx(2 / 70)
    assert rank_test_p(np.full(6, 5.0), np.full(6, 5.0)) == 1
    many = np.repeat([1.0, 2, 3], 40), np.repeat([1.0, 2, 4], 40)
    assert rank_test_p(*many) == pytest.approx(stats.mannwhitneyu(*many, method="asymptotic").pvalue)


def test_holm_as_in_r() -> None:
    """p.adjust(c(0.04, 0.01, 0.03, 0.05, 0.02), "holm")."""
    assert holm([0.04, 0.01, 0.03, 0.05, 0.02]) == pytest.approx([0.09, 0.05, 0.09, 0.09, 0.08])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize(
    ("classes", "runs"),
    [(0, 4), (1, 4), (2, 5), (6, 5), (7, 6), (23, 6), (24, 7), (85, 7), (86, 8), (321, 8), (322, 9)],
)
def test_how_many_runs_decide_so_many_classes(classes: int, runs: int) -> None:
    assert runs_to_decide(classes) == runs
    if classes:
        assert smallest_p(runs, runs) * classes < 0.05


@pytest.mark.parametrize(
    ("baseline", "other", "p"),
    [
        ([5], [5], 1),
        ([5], [5, 5, 5], 1),
        ([5], [6, 6, 7], 2 / 4),
        ([6, 6, 7], [5], 2 / 4),
        ([6], [5, 7, 7, 7], 4 / 5),
        ([1], [*range(1, 40), 39], 4 / 41),
    ],
)
def test_a_single_run_can_tie_with_others(baseline: list[float], other: list[float], p: float) -> None:
    assert rank_test_p(np.array(baseline, float), np.array(other, float)) == pytest.approx(p)


_RUNS = st.lists(st.integers(1, 40), min_size=1, max_size=5)


@given(_RUNS, _RUNS)
def test_p_counts_the_arrangements_that_are_as_extreme(baseline: list[int], other: list[int]) -> None:
    """The exact two-sided permutation test of the rank sum, by enumeration."""
    assume(len(set(baseline + other)) == len(baseline + other))
    ranks = stats.rankdata(baseline + other)
    centre = len(other) * (len(ranks) + 1) / 2
    sums = [sum(chosen) for chosen in itertools.combinations(ranks.tolist(), len(other))]
    observed = abs(float(ranks[len(baseline) :].sum()) - centre)
    p = sum(abs(one - centre) >= observed - 1e-9 for one in sums) / len(sums)
    assert rank_test_p(np.array(baseline, float), np.array(other, float)) == pytest.approx(p)
    assert p >= smallest_p(len(baseline), len(other)) - 1e-12


_TIED = st.lists(st.integers(1, 4).map(float), min_size=2, max_size=7)


@given(_TIED, _TIED)
def test_ranks_with_ties_have_the_p_of_all_permutations(baseline: list[float], other: list[float]) -> None:
    expected = stats.mannwhitneyu(baseline, other, method=stats.PermutationMethod(n_resamples=10_000)).pvalue
    assert rank_test_p(np.array(baseline), np.array(other)) == pytest.approx(expected)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=30, unique=True), st.data())
def test_signed_ranks_without_ties_have_the_p_of_scipy(sizes: list[int], data: st.DataObject) -> None:
    signs = data.draw(st.lists(st.sampled_from([-1, 1]), min_size=len(sizes), max_size=len(sizes)))
    logs = np.array(sizes) * np.array(signs) / 100
    assert signed_rank_p(np.exp(logs)) == pytest.approx(stats.wilcoxon(logs, method="exact").pvalue)


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=8).filter(any))
def test_signed_ranks_with_ties_have_the_p_of_all_permutations(powers: list[int]) -> None:
    permutations = stats.PermutationMethod(n_resamples=1_000)
    expected = stats.wilcoxon(powers, method=permutations, zero_method="pratt").pvalue
    assert signed_rank_p(2.0 ** np.array(powers)) == pytest.approx(min(1.0, expected))


@given(st.lists(st.tuples(st.floats(1, 100), st.floats(1, 100)), min_size=2, max_size=8), st.data())
def test_the_drift_is_the_theil_sen_slope_of_both_sides(pairs: list[tuple[float, float]], data: st.DataObject) -> None:
    times = st.lists(st.integers(0, 50), min_size=len(pairs), max_size=len(pairs), unique=True)
    at = [np.array(data.draw(times), float) for _ in range(2)]
    sides = np.array(pairs).T
    slope = np.mean([stats.theilslopes(np.log(side), when).slope for side, when in zip(sides, at, strict=True)])
    found = pair_ratios(sides[0], sides[1], baseline_at=at[0], other_at=at[1])
    assert np.log(found) == pytest.approx(np.log(sides[1] / sides[0]) - slope * (at[1] - at[0]), abs=1e-9)


_POSITIVE = st.lists(st.floats(1, 1e6), min_size=1, max_size=6)


@given(_POSITIVE, _POSITIVE)
def test_the_ratio_is_the_median_of_all_pairwise_ratios(baseline: list[float], other: list[float]) -> None:
    logs = [math.log(b / a) for a in baseline for b in other]
    assert ratio(np.array(baseline), np.array(other)) == pytest.approx(math.exp(float(np.median(logs))), rel=1e-6)


@given(_POSITIVE, _POSITIVE, st.floats(0.1, 10))
def test_the_ratio_scales_with_the_times_and_inverts_with_the_groups(
    baseline: list[float], other: list[float], factor: float
) -> None:
    first, second = np.array(baseline), np.array(other)
    assert ratio(first, second * factor) == pytest.approx(ratio(first, second) * factor)
    assert ratio(second, first) == pytest.approx(1 / ratio(first, second))


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_never_lowers_p_keeps_the_order_and_stays_below_bonferroni(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    for p, corrected in zip(p_values, adjusted, strict=True):
        assert p <= corrected <= min(1, p * len(p_values)) + 1e-12
    assert sorted(adjusted) == [adjusted[n] for n in sorted(range(len(adjusted)), key=p_values.__getitem__)]


def test_two_runs_a_side_are_enough_for_an_interval_that_holds_the_ratio() -> None:
    interval = ratio_interval(SIX[:2], SIX[:2] * 1.5, resamples=999)
    assert interval.low <= 1.5 <= interval.high


def _half_width(runs: int, deviation: float) -> float:
    return float(stats.t.ppf(0.975, 2 * runs - 2)) * deviation * math.sqrt(2 / runs)


def test_runs_to_narrow_is_the_smallest_number_that_suffices() -> None:
    values, deviation = np.exp(0.02 * np.arange(4)), float(np.std(0.02 * np.arange(4), ddof=1))
    needed = spread_of_groups(values, values).runs_to_narrow(0.03)
    assert _half_width(needed, deviation) <= 0.03 < _half_width(needed - 1, deviation)


def test_both_groups_contribute_their_variance() -> None:
    steady, noisy = np.full(4, 7.0), np.exp(0.02 * np.arange(4))
    deviation = float(np.std(0.02 * np.arange(4), ddof=1)) / math.sqrt(2)
    for groups in ((steady, noisy), (noisy, steady)):
        needed = spread_of_groups(*groups).runs_to_narrow(0.02)
        assert _half_width(needed, deviation) <= 0.02 < _half_width(needed - 1, deviation)


def test_runs_without_spread_need_only_the_minimum() -> None:
    assert spread_of_groups(np.full(3, 7.0), np.full(3, 7.0)).runs_to_narrow(0.0) == MIN_RUNS


def test_a_hundred_runs_are_the_most_that_are_recommended() -> None:
    values, deviation = np.exp(0.1 * np.arange(6)), float(np.std(0.1 * np.arange(6), ddof=1))
    limit = _half_width(MAX_RUNS, deviation)
    assert spread_of_groups(values, values).runs_to_narrow(limit * 1.0001) == MAX_RUNS == 100
    assert spread_of_groups(values, values).runs_to_narrow(limit * 0.999) is None


@pytest.mark.parametrize(("baseline", "other", "p"), [(0, 5, 1), (5, 0, 1), (1, 1, 1), (1, 3, 0.5), (2, 2, 1 / 3)])
def test_the_smallest_p_follows_from_the_number_of_arrangements(baseline: int, other: int, p: float) -> None:
    assert smallest_p(baseline, other) == pytest.approx(p)


def test_the_paired_estimate_is_the_median_of_the_means_of_two_log_ratios() -> None:
    baseline, other = np.array([1.0, 10.0, 100.0]), np.array([2.0, 40.0, 100.0])
    means = sorted(np.log2([2, 4, 1, (2 * 4) ** 0.5, (2 * 1) ** 0.5, (4 * 1) ** 0.5]))
    assert np.log2(location(other / baseline)) == pytest.approx((means[2] + means[3]) / 2)


def test_the_signed_rank_test_is_exact() -> None:
    baseline = np.ones(10)
    other = np.exp(np.arange(1, 11) / 100)
    assert signed_rank_p(other / baseline) == pytest.approx(smallest_paired_p(10)) == 2 / 2**10
    assert signed_rank_p(baseline) == 1.0
    ties = np.array([2, 2, 2, 2, 2, 0.5])
    assert signed_rank_p(ties) == pytest.approx(14 / 64)


def test_the_location_interval_covers_the_ratio() -> None:
    spread = np.exp(np.array([1, -2, 3, -1, 2, -3, 0.5, -0.5]) / 1000)
    found = location_interval(1.1 * spread, resamples=999)
    assert 1.095 < found.low < 1.1 < found.high < 1.105
    assert location_interval(spread[:1]) is None


def test_a_steady_drift_within_pairs_is_taken_out() -> None:
    at = np.arange(20.0)
    drift = 1.02**at
    found = pair_ratios(drift[::2], 1.1 * drift[1::2], baseline_at=at[::2], other_at=at[1::2])
    assert found == pytest.approx(np.full(10, 1.1))


def test_pairs_to_decide_and_to_narrow() -> None:
    assert [pairs_to_decide(classes) for classes in (1, 2, 25)] == [6, 7, 10]
    assert spread_of_pairs(np.exp([0.01, -0.01] * 3)).runs_to_narrow(0.02) == 4
    assert spread_of_pairs(np.exp([1, -1] * 3)).runs_to_narrow(1e-3) is None


@pytest.mark.parametrize("is_paired", [True, False])
def test_what_is_said_to_be_found_is_found_in_95_of_100_comparisons(is_paired: bool) -> None:
    """Runs without a tail, 10 a side; allowed are two standard errors of 60 comparisons."""
    deviation, margin, n = 0.02, 0.01, 10
    spread = RunSpread(deviation * (math.sqrt(2) if is_paired else 1), is_paired)
    found, random = spread.smallest_found(n, margin=margin), np.random.default_rng(7)
    seen = 0
    for _ in range(60):
        a, b = np.exp(deviation * random.standard_normal((2, n)))
        other = found * b
        interval = location_interval(other / a, resamples=299) if is_paired else ratio_interval(a, other, resamples=299)
        seen += interval.low > 1 + margin
    assert seen >= 60 * 0.95 - 2 * math.sqrt(60 * 0.95 * 0.05)
    assert seen < 60  # it is not far more than is needed


def test_so_many_runs_find_a_difference() -> None:
    spread = RunSpread(0.05, is_paired=True)
    needed = spread.runs_to_find(1.05, margin=0.01)
    assert spread.smallest_found(needed, margin=0.01) <= 1.05 < spread.smallest_found(needed - 1, margin=0.01)
    assert spread.runs_to_find(1.011, margin=0.01) is None
