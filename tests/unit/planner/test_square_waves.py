from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.planner.square_waves import Wave, expected_factors

duties = st.floats(0.05, 0.5)
phases = st.floats(0, 1)


@given(duty=duties, phase=phases)
def test_equal_jobs_meet_the_closed_form(duty: float, phase: float) -> None:
    wave = Wave(1e7 * (1 - duty), 1e7 * duty)
    apart = min(phase, 1 - phase)
    assert expected_factors(wave, wave, phase=phase) == pytest.approx((1 + max(0, duty - apart),) * 2)


def test_the_area_under_the_curve_is_one_and_the_square_of_the_duty() -> None:
    wave, phases = Wave(6e6, 4e6), np.linspace(0, 1, 101)
    curve = [expected_factors(wave, wave, phase=float(phase))[0] for phase in phases]
    assert np.trapezoid(curve, phases) == pytest.approx(1 + 0.4**2, abs=1e-4)
    assert min(curve) == pytest.approx(1)


def test_jobs_that_only_communicate_take_twice_as_long() -> None:
    assert expected_factors(Wave(0, 1e6), Wave(0, 1e6), phase=0) == pytest.approx((2, 2))


def test_a_job_that_communicates_all_the_time_slows_the_other_by_its_duty() -> None:
    first, second = expected_factors(Wave(0, 1e6), Wave(6e6, 4e6), phase=0, iterations=200)
    assert second == pytest.approx(1.4, rel=0.01)
    assert 1.3 < first < 1.7


@given(a=st.tuples(st.floats(1e3, 1e9), st.floats(1e3, 1e9)), b=st.tuples(st.floats(1e3, 1e9), st.floats(1e3, 1e9)))
def test_no_job_is_faster_than_alone_or_slower_than_half(a: tuple[float, float], b: tuple[float, float]) -> None:
    first, second = Wave(*a), Wave(*b)
    if max(first.period_ns, second.period_ns) > 100 * min(first.period_ns, second.period_ns):
        return
    for wave, one in zip((first, second), expected_factors(first, second, phase=0.3, iterations=3), strict=True):
        assert 1 - 1e-9 <= one <= 1 + wave.duty + 1e-9
