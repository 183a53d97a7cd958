import math

import numpy as np
import pytest
from scipy import stats

from emulator.comparison.inference import (
    holm,
    rank_test_p,
    ratio,
    ratio_interval,
    runs_to_decide,
    runs_to_narrow,
    smallest_p,
)
from tests.support.full import IS_FULL

SIX = np.array([100.0, 101, 102, 103, 104, 105])


def test_the_ratio_is_that_of_a_typical_pair_of_runs() -> None:
    assert ratio(SIX, SIX * 1.1) == pytest.approx(1.1)
    assert ratio(SIX, SIX) == pytest.approx(1.0)
    assert ratio(np.array([50.0]), np.array([75.0])) == pytest.approx(1.5)


def test_one_run_that_went_wrong_hardly_moves_the_ratio() -> None:
    disturbed = SIX.copy()
    disturbed[3] = 900
    assert ratio(SIX, disturbed) == pytest.approx(1.0, abs=0.02)


def test_exchanging_the_groups_turns_ratio_and_interval_around() -> None:
    there, back = ratio_interval(SIX, SIX * 1.2, seed=1), ratio_interval(SIX * 1.2, SIX, seed=1)
    assert there is not None
    assert back is not None
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
        assert interval is not None
        held += interval.low <= 1 <= interval.high
    assert held / trials >= 0.95 - 2 * math.sqrt(0.95 * 0.05 / trials)  # two standard errors of such a count


@pytest.mark.parametrize(("runs", "p"), [(4, 0.0286), (5, 0.00794), (6, 0.00216), (8, 0.000155)])
def test_so_many_runs_a_side_bound_the_p_that_can_be_reached(runs: int, p: float) -> None:
    assert smallest_p(runs, runs) == pytest.approx(p, rel=0.01)
    apart = rank_test_p(np.arange(1.0, runs + 1), np.arange(101.0, runs + 101))
    assert apart == pytest.approx(smallest_p(runs, runs))


def test_ties_are_tested_exactly_too() -> None:
    assert rank_test_p(np.array([1.0, 1, 2, 2]), np.array([3.0, 3, 4, 4])) == pytest.approx(2 / 70)
    assert rank_test_p(np.full(6, 5.0), np.full(6, 5.0)) == 1
    many = rank_test_p(np.repeat([1.0, 2, 3], 20), np.repeat([1.0, 2, 4], 20))
    assert many == pytest.approx(
        stats.mannwhitneyu(np.repeat([1, 2, 3], 20), np.repeat([1, 2, 4], 20), method="asymptotic").pvalue
    )


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


def test_runs_needed_grow_with_the_square_of_the_spread() -> None:
    few, many = (
        runs_to_narrow(np.exp(spread * np.arange(6)), np.exp(spread * np.arange(6)), half_width=0.012)
        for spread in (0.01, 0.02)
    )
    assert few is not None
    assert many is not None
    assert many / few == pytest.approx(4, rel=0.1)
    assert runs_to_narrow(np.exp(0.1 * np.arange(6)), np.exp(0.1 * np.arange(6)), half_width=0.001) is None
    deviation = float(np.std(0.01 * np.arange(6), ddof=1))
    assert stats.t.ppf(0.975, 2 * few - 2) * deviation * math.sqrt(2 / few) <= 0.012
