import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.annexes.series.suite_document import Search
from emulator.annexes.series.suite_search import found, next_load, not_passed


def search(low: int = 100, high: int = 1000, resolution: float = 0.01, at_least: int | None = None) -> Search:
    return Search("rate", low, high, resolution, 1, low if at_least is None else at_least)


def played(one: Search, limit: int) -> dict[int, bool]:
    """All loads of a search on a device that passes every load up to a limit, in order."""
    tried: dict[int, bool] = {}
    while (load := next_load(one, tried)) is not None:
        assert load not in tried
        tried[load] = load <= limit
    return tried


def test_the_first_load_is_the_highest_and_ends_the_search_if_it_passes() -> None:
    assert played(search(), limit=2000) == {1000: True}


def test_the_second_load_is_the_lowest_and_ends_the_search_if_it_fails() -> None:
    one = search()
    tried = played(one, limit=50)
    assert tried == {1000: False, 100: False}
    assert found(tried) is None
    assert not_passed(tried) == 100


def test_then_the_range_is_halved() -> None:
    assert list(played(search(resolution=0.2), limit=600)) == [1000, 100, 550, 775, 662]


@given(st.integers(1, 10**6), st.integers(2, 10**6), st.floats(0.001, 0.5), st.integers(0, 3 * 10**6))
def test_what_is_found_passes_and_is_within_the_resolution_of_the_limit(
    low: int, width: int, resolution: float, limit: int
) -> None:
    one = search(low, low + width, resolution)
    tried = played(one, limit)
    highest = found(tried)
    if limit < low:
        assert highest is None
    else:
        assert highest <= limit
        assert min(limit, one.high) - highest <= max(1, resolution * one.high)


def test_a_load_that_passes_above_one_that_failed_does_not_count() -> None:
    """A device that fails now and then: only loads below every failure are found."""
    tried = {1000: False, 100: True, 550: False, 775: True}
    assert found(tried) == 100


@pytest.mark.parametrize("resolution", [0.1, 0.01])
def test_a_finer_resolution_takes_more_loads(resolution: float) -> None:
    assert len(played(search(1, 10**6, resolution), limit=123_456)) == {0.1: 6, 0.01: 9}[resolution]
