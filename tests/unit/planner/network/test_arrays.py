from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from emulator.planner.network.arrays import concatenated_ranges, sum_by

PAIRS = st.lists(st.tuples(st.sampled_from([0, 1, 5, 1 << 21, 1 << 30]), st.integers(0, 1000)), max_size=40)


@given(PAIRS)
def test_values_are_summed_by_key_whether_keys_are_dense_or_not(pairs: list[tuple[int, int]]) -> None:
    expected: Counter[int] = Counter()
    for key, value in pairs:
        expected[key] += value
    keys, sums = sum_by(
        np.array([key for key, _ in pairs], np.int64), np.array([value for _, value in pairs], np.int64)
    )
    assert keys.tolist() == sorted({key for key, _ in pairs})
    assert sums.tolist() == [expected[key] for key in keys.tolist()]


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 6)), max_size=20))
def test_ranges_are_concatenated(ranges: list[tuple[int, int]]) -> None:
    first, count = (np.array([one[place] for one in ranges], np.int64) for place in (0, 1))
    expected = [number for start, length in ranges for number in range(start, start + length)]
    assert concatenated_ranges(first, count).tolist() == expected
