from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.views.html.page.reduction import (
    CURVE_POINTS,
    TAIL_POINTS,
    distribution_curve,
    iteration_slices,
    joined_intervals,
    states,
)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=2_000))
def test_every_point_of_a_curve_is_exact(values: list[int]) -> None:
    curve = distribution_curve(np.array(values))
    assert curve.share == [sum(one <= value for one in values) / len(values) for value in curve.value]
    assert (curve.value[0], curve.value[-1], curve.share[-1]) == (min(values), max(values), 1.0)
    assert set(curve.value) <= set(values)
    assert len(curve.value) <= CURVE_POINTS + TAIL_POINTS


def test_the_tail_of_a_curve_is_whole() -> None:
    curve = distribution_curve(np.arange(100_000))
    assert curve.value[-TAIL_POINTS:] == list(range(100_000 - TAIL_POINTS, 100_000))


def test_stretches_hold_every_row_once() -> None:
    iteration = np.repeat(np.arange(1_000), 3)
    found = list(iteration_slices(iteration, most=240))
    assert len(found) == 200
    assert (found[0].first, found[0].last, found[1].first) == (0, 4, 5)
    assert np.array_equal(np.sort(np.concatenate([one.rows for one in found])), np.arange(3_000))


@pytest.mark.parametrize(("gap", "joined"), [(0, [(0, 4), (5, 6), (20, 21)]), (1, [(0, 6), (20, 21)]), (14, [(0, 21)])])
def test_intervals_nearer_than_the_gap_become_one(gap: float, joined: list[tuple[int, int]]) -> None:
    start, end = np.array([20, 0, 1, 5]), np.array([21, 3, 4, 6])
    assert joined_intervals(start, end, gap=gap) == joined


INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=12)


@given(INTERVALS, INTERVALS)
def test_states_say_of_every_moment_what_goes_on(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    unions = [
        joined_intervals(np.array([a for a, _ in each]), np.array([a + length for a, length in each]), gap=0)
        for each in (one, other)
    ]
    found = list(states(*unions))
    for moment in range(80):
        inside = [any(low <= moment < high for low, high in union) for union in unions]
        said = [state for state, low, high in found if low <= moment < high]
        assert said == ([inside[0] + 2 * inside[1]] if any(inside) else [])
    assert all(a[:2] != (b[0], b[1]) and (a[2] < b[1] or a[0] != b[0]) for a, b in pairwise(found))


def test_what_took_no_time_is_no_state() -> None:
    assert list(states([(5, 5)], [])) == []
