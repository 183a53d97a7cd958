import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from emulator.results.statistics.method.descriptive import median, median_index, percentile, samples_needed

_VALUES = st.lists(st.integers(-(2**52), 2**52), min_size=1, max_size=300)


@given(_VALUES, st.sampled_from(["0.5", "0.9", "0.95", "0.99", "0.999"]))
def test_a_percentile_is_the_smallest_value_that_covers_its_share(values: list[int], q: str) -> None:
    found = percentile(np.array(values), float(q))
    if len(values) < samples_needed(float(q)):
        assert found is None
    else:
        assert found == sorted(values)[math.ceil(Fraction(q) * len(values)) - 1]


@given(_VALUES)
def test_the_median_is_a_measured_value_in_the_lower_middle(values: list[int]) -> None:
    array = np.array(values)
    assert median(array) == sorted(values)[(len(values) - 1) // 2] == values[median_index(array)]


@given(_VALUES, st.randoms())
def test_the_order_of_samples_does_not_matter(values: list[int], rng: object) -> None:
    shuffled = list(values)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert median(np.array(values)) == median(np.array(shuffled))
