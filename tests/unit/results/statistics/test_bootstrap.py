import math

import numpy as np
import pytest
from scipy import stats

from emulator.results.statistics.method.bootstrap import bootstrap_interval, median_interval


def mean(values: np.ndarray, axis: int) -> np.ndarray:
    return np.mean(values, axis=axis)


def test_the_same_seed_gives_the_same_interval() -> None:
    values = np.random.default_rng(1).normal(100, 5, 8)
    first, again, other = (
        bootstrap_interval((values,), mean, seed=seed, resamples=999, values_per_resample=8) for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other


def test_the_interval_is_the_percentile_interval_of_scipy_at_the_expanded_level() -> None:
    random = np.random.default_rng(4)
    samples = random.normal(100, 5, 8), random.normal(90, 5, 6)

    def difference(one: np.ndarray, other: np.ndarray, axis: int) -> np.ndarray:
        return mean(one, axis) - mean(other, axis)

    confidence = 1 - 2 * stats.norm.sf(math.sqrt(6 / 5) * stats.t.ppf(0.975, 7 + 5))
    expected = stats.bootstrap(
        samples, difference, n_resamples=999, confidence_level=confidence, method="percentile", rng=3, vectorized=True
    ).confidence_interval
    found = bootstrap_interval(samples, difference, seed=3, resamples=999, values_per_resample=14)
    assert found == pytest.approx((expected.low, expected.high))


def test_the_size_of_a_batch_decides_nothing_but_memory() -> None:
    values = np.random.default_rng(1).normal(100, 5, 8)
    small = bootstrap_interval((values,), mean, seed=3, resamples=999, values_per_resample=1_000_000)
    large = bootstrap_interval((values,), mean, seed=3, resamples=999, values_per_resample=8)
    assert small == pytest.approx(large, rel=0.01)


def test_a_median_needs_six_iterations() -> None:
    values = np.arange(100, 160)
    assert median_interval(values, np.repeat(np.arange(5), 12)) is None
    interval = median_interval(values, np.repeat(np.arange(6), 10))
    assert interval.low <= 129 <= interval.high


def test_measurements_of_one_iteration_are_no_independent_ones() -> None:
    """Fifty copies of each of eight iterations say no more than eight iterations."""
    iterations = np.random.default_rng(2).integers(1_000, 2_000, 8)
    alone = median_interval(iterations, np.arange(8))
    copied = median_interval(np.repeat(iterations, 50), np.repeat(np.arange(8), 50))
    independent = median_interval(np.repeat(iterations, 50), np.arange(400))
    assert alone == copied
    assert independent.high - independent.low < alone.high - alone.low


def test_iterations_may_have_different_numbers_of_measurements() -> None:
    unit = np.array([0, 0, 0, 1, 2, 2, 3, 4, 5, 5])
    interval = median_interval(np.full(10, 7), unit)
    assert interval == (7, 7)
