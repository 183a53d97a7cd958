"""Steps in series: found where they are, and none where there is none."""

import numpy as np
import pytest

from emulator.annexes.recovery import find_step


@pytest.mark.parametrize("cut", [12, 50, 88])
def test_a_step_in_noise_is_found_within_a_bin(cut: int) -> None:
    noise = np.random.default_rng(7).normal(0, 100, 100)
    found = find_step(np.where(np.arange(100) < cut, 1000.0, 100.0) + noise)
    assert abs(found.cut - cut) <= 1
    assert (found.before, found.after) == (pytest.approx(1000, abs=80), pytest.approx(100, abs=80))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("count", [20, 100])
def test_noise_has_no_step(count: int, seed: int) -> None:
    assert find_step(np.random.default_rng(seed).normal(1000, 300, count)) is None


def test_a_constant_a_single_burst_and_too_few_values_have_none() -> None:
    burst = np.full(100, 10.0)
    burst[94] = 10_000
    assert find_step(np.full(100, 5.0)) is None
    assert find_step(burst) is None
    assert find_step(np.array([9.0] * 9 + [1.0] * 10)) is None


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("count", [20, 40, 100])
def test_a_slow_change_is_no_step(count: int, seed: int) -> None:
    noise = np.random.default_rng(seed).normal(0, 50, count)
    assert find_step(np.linspace(500, 1500, count) + noise) is None


@pytest.mark.parametrize("after", [5, 7, 20, 40])
def test_a_pause_that_ends_near_the_end_is_no_step(after: int) -> None:
    noise = np.random.default_rng(7).normal(0, 3, 100)
    assert find_step(np.r_[np.full(65 - after, 100.0), np.zeros(35), np.full(after, 100.0)] + noise) is None


def test_a_stair_of_two_like_steps_is_no_step_and_one_with_a_low_second_is() -> None:
    noise = np.random.default_rng(7).normal(0, 20, 100)
    assert find_step(np.repeat([1000.0, 500.0, 100.0], [50, 25, 25]) + noise) is None
    found = find_step(np.repeat([1000.0, 0.0, 100.0], [50, 25, 25]) + noise)
    assert found.cut == 50
