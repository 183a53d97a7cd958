"""The slope of a soak, and its interval."""

import numpy as np

from lab.benchmarks.soak import slope

AT_S = [5.0 * reading for reading in range(360)]


def test_a_leak_is_found_with_its_rate_per_hour() -> None:
    noise = np.random.default_rng(0).normal(scale=1e6, size=len(AT_S))
    found = slope(AT_S, [1e8 + 2e6 * at_s / 3600 * 10 + one for at_s, one in zip(AT_S, noise, strict=True)])
    assert 1e7 < found.low < 2e7 < found.high < 3e7


def test_noise_alone_is_no_leak() -> None:
    noise = np.random.default_rng(1).normal(scale=1e6, size=len(AT_S))
    found = slope(AT_S, [1e8 + one for one in noise])
    assert found.low < 0 < found.high


def test_what_stays_the_same_has_a_slope_of_nothing() -> None:
    found = slope(AT_S, [50.0] * len(AT_S))
    assert (found.per_hour, found.low, found.high) == (0, 0, 0)
