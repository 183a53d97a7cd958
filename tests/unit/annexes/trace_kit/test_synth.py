import warnings
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from emulator.annexes.trace_kit.anonymous import group_numbers, numbered_groups
from emulator.annexes.trace_kit.statistics import Symbol, statistics_of
from emulator.annexes.trace_kit.synth import distances, draw, kolmogorov_smirnov, shuffled_steps
from emulator.trace.meaning.model import CommKind, Workload
from emulator.trace.meaning.workload import build_workload
from emulator.trace.synthetic.synthetic import WorkNode
from tests.support.random_traces import random_traces
from tests.support.traces import coll, node, rank_trace


def drawn(traces: list, seed: int) -> list[list[WorkNode]]:
    workload = build_workload(traces)
    numbers = group_numbers(workload)
    streams = draw(statistics_of(workload), groups=numbers, ranks_of=numbered_groups(workload, numbers), seed=seed)
    return [list(streams.nodes(rank)) for rank in range(streams.ranks)]


@pytest.mark.parametrize("seed", range(50))
def test_a_shuffle_keeps_ends_and_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps = [Symbol(int(one), CommKind.BARRIER) for one in rng.integers(4, size=int(rng.integers(1, 30)))]
    found = shuffled_steps(steps, rng)
    assert (found[0], found[-1]) == (steps[0], steps[-1])
    assert Counter(pairwise(found)) == Counter(pairwise(steps))


def test_shuffles_differ() -> None:
    steps = [Symbol(one, CommKind.BARRIER) for one in (0, 1, 0, 2, 0, 3, 0, 1, 2, 3, 0)]
    found = {tuple(shuffled_steps(steps, np.random.default_rng(seed))) for seed in range(30)}
    assert len(found) > 5


@pytest.mark.parametrize("seed", range(20))
def test_every_operation_occurs_as_often_as_in_the_source(seed: int) -> None:
    traces = random_traces(seed)
    nodes = drawn(traces, seed)
    for trace, mine in zip(traces, nodes, strict=True):
        assert sum(one.kind is not None for one in mine) == len(trace.communications)


def test_the_same_seed_draws_the_same_and_another_one_does_not() -> None:
    mine = [node(at, duration=at * 37 % 90) if at % 2 else coll(at, "all_reduce", 2**at) for at in range(1, 31)]
    traces = [rank_trace(rank, mine) for rank in range(2)]
    assert drawn(traces, 1) == drawn(traces, 1) != drawn(traces, 2)


def test_gaps_lie_between_the_observed_ones() -> None:
    mine = [node(at, duration=100 + at) if at % 2 else coll(at, "all_reduce", 8) for at in range(1, 41)]
    (nodes, _) = drawn([rank_trace(rank, mine) for rank in range(2)], 5)
    gaps = [one.duration_micros for one in nodes if one.kind is None]
    assert len(gaps) == 20
    assert 101 <= min(gaps) < max(gaps) <= 139


def test_every_rank_does_one_after_the_other() -> None:
    for nodes in drawn(random_traces(3), 1):
        assert [one.deps for one in nodes] == [(), *((at,) for at in range(1, len(nodes)))]


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
