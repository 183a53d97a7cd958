import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from emulator.annexes.trace_kit.synth import distances, kolmogorov_smirnov
from emulator.trace.meaning.model import Workload
from emulator.trace.meaning.workload import build_workload
from tests.support.traces import coll, node, rank_trace


def workload(*sizes: int, gap: int) -> Workload:
    nodes = []
    for at, size in enumerate(sizes):
        nodes += [node(2 * at + 1, duration=gap), coll(2 * at + 2, "all_reduce", size, deps=[2 * at + 1])]
    return build_workload([rank_trace(0, nodes)])


def test_equal_sets_have_no_distance() -> None:
    one = workload(1, 2, 3, 4, gap=5)
    assert [(row.what, row.name, row.kolmogorov_smirnov) for row in distances(one, one, roles=[0])] == [
        ("size", "all_reduce", 0.0),
        ("gap", "role 1 (1 rank)", 0.0),
    ]


def test_distance_is_the_largest_difference_of_shares() -> None:
    size, gap = distances(workload(1, 2, 3, 4, gap=5), workload(1, 2, 9, 9, 9, 9, 9, 9, gap=6), roles=[0])
    assert size.kolmogorov_smirnov == pytest.approx(1 - 2 / 8)
    assert (size.source_count, size.sample_count, size.source_sum, size.sample_sum) == (4, 8, 10, 57)
    assert gap.kolmogorov_smirnov == pytest.approx(8 / 9)


_VALUES = st.lists(st.integers(0, 20), min_size=1, max_size=30)


@given(_VALUES, _VALUES)
def test_the_distance_is_that_of_scipy(source: list[int], sample: list[int]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of the probability, which is no matter here
        expected = stats.ks_2samp(source, sample, method="asymp").statistic
    assert kolmogorov_smirnov(np.array(source), np.array(sample)) == pytest.approx(expected)


def test_a_kind_that_one_side_lacks_has_no_distance() -> None:
    other = build_workload([rank_trace(0, [coll(1, "all_gather", 7)])])
    rows = distances(workload(1, gap=1), other, roles=[0])
    assert [(row.name, row.source_count, row.sample_count, row.kolmogorov_smirnov) for row in rows[:2]] == [
        ("all_gather", 0, 1, None),
        ("all_reduce", 1, 0, None),
    ]
