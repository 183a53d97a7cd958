"""Durations of background messages: their percentiles, however many there are."""

import pytest

from agents.annexes.background.ends import Durations


def test_percentiles_are_measured_values() -> None:
    found = Durations()
    assert (found.count, found.percentile(0.5)) == (0, None)
    for duration_ns in range(1, 100):
        found.note(duration_ns)
    assert (found.count, found.percentile(0.5), found.percentile(0.99)) == (99, 50, None)
    found.note(100)
    assert found.percentile(0.99) == 99


def test_of_very_many_a_share_is_kept() -> None:
    found = Durations(most=64)
    for duration_ns in range(1000):
        found.note(duration_ns)
    assert found.count == 1000
    assert found.percentile(0.5) == pytest.approx(500, abs=40)
