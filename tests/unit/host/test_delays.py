"""The newest delays, and their median."""

import statistics

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from emulator.host.delays import REMEMBERED, NewestDelays


@given(st.lists(st.integers(0, 1 << 40), max_size=50))
def test_the_median_is_that_of_all_delays(delays: list[int]) -> None:
    newest = NewestDelays()
    for delay in delays:
        newest.note(delay)
    assert sorted(newest.delays_ns().tolist()) == sorted(delays)
    assert newest.median_ns() == (int(statistics.median(delays)) if delays else None)


def test_only_the_newest_are_remembered() -> None:
    newest = NewestDelays()
    for delay in range(REMEMBERED + 10):
        newest.note(delay)
    remembered = newest.delays_ns()
    assert (remembered.min(), remembered.max(), len(remembered)) == (10, REMEMBERED + 9, REMEMBERED)


def test_what_was_read_does_not_change_with_later_delays() -> None:
    newest = NewestDelays()
    newest.note(5)
    before = newest.delays_ns()
    newest.note(7)
    assert (before.tolist(), before.dtype) == ([5], np.int64)
