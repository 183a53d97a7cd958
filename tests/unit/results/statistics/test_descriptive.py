import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from emulator.results.statistics.method.descriptive import (
    median,
    median_index,
    percentile,
    samples_needed,
    student_t_quantile,
    variation,
)


@pytest.mark.parametrize(("q", "needed"), [(0.5, 1), (0.9, 10), (0.95, 20), (0.99, 100), (0.999, 1000), (0.01, 100)])
def test_a_percentile_needs_as_many_samples_as_its_tail_is_thin(q: float, needed: int) -> None:
    assert samples_needed(q) == needed
    assert percentile(np.arange(needed), q) is not None
    assert percentile(np.arange(needed - 1), q) is None


def test_percentiles_are_nearest_ranks() -> None:
    values = np.arange(100, 0, -1)
    assert [percentile(values, q) for q in (0.5, 0.9, 0.95, 0.99)] == [50, 90, 95, 99]


def test_the_median_stands_where_it_was_first_measured() -> None:
    assert median_index(np.array([5, 9, 5, 1])) == 0
    assert median_index(np.array([9, 1, 4])) == 2


@pytest.mark.parametrize("q", [0.0, 1.0, -0.1, 99])
def test_what_is_no_quantile_is_refused(q: float) -> None:
    with pytest.raises(ValueError, match="quantile"):
        samples_needed(q)


def test_variation_is_the_sample_deviation_over_the_mean() -> None:
    assert variation(np.array([90, 110])) == pytest.approx(np.sqrt(200) / 100)
    assert variation(np.array([100])) is None
    assert variation(np.array([-1, 1])) is None


_VALUES = st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=400)


@given(_VALUES, st.floats(0.01, 0.99))
def test_a_percentile_has_its_share_of_the_samples_at_or_below_it(values: list[int], q: float) -> None:
    q = round(q, 2)
    found = percentile(np.array(values), q)
    if found is None:
        assert len(values) < samples_needed(q)
    else:
        assert found in values
        assert stats.percentileofscore(values, found, "weak") >= 100 * q - 1e-9
        assert stats.percentileofscore(values, found, "strict") < 100 * q + 1e-9


@given(_VALUES)
def test_the_median_is_the_low_median_of_the_standard_library(values: list[int]) -> None:
    assert median(np.array(values)) == statistics.median_low(values)
    assert values.index(statistics.median_low(values)) == median_index(np.array(values))


@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=100))
def test_variation_is_scipys(values: list[int]) -> None:
    assert variation(np.array(values)) == pytest.approx(stats.variation(values, ddof=1))


@given(st.integers(3, 10_000))
def test_the_samples_that_a_tail_needs_are_its_inverse(needed: int) -> None:
    assert samples_needed(float(f"{1 / needed:.12f}")) in (needed, needed + 1)


@given(share=st.floats(0.5, 0.9999), freedom=st.integers(1, 3_000))
def test_a_quantile_is_that_of_scipy(share: float, freedom: int) -> None:
    assert student_t_quantile(share, freedom) == pytest.approx(stats.t.ppf(share, freedom), rel=1e-9, abs=1e-9)
