"""Schedules of background traffic: gaps, sizes and rates, before anything is sent."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from emulator.flows.background.schedule import BATCH, PATTERNS, Schedule, WireSize, batches

WIRE = WireSize(packet_bytes=1440, per_packet=98)
PLAIN = Schedule(
    pattern="poisson", sizes="fixed", size_bytes=1440, rate_bps=200_000_000, peak_bps=500_000_000, on_ns=300_000,
    wire=WIRE, seed=(0, 1),
)  # fmt: skip
Ints = npt.NDArray[np.int64]


def drawn(schedule: Schedule, count: int = 8) -> tuple[Ints, Ints]:
    """Due times and sizes of the first batches."""
    found = list(islice(batches(schedule), count))
    return np.concatenate([one.due_ns for one in found]), np.concatenate([one.size_bytes for one in found])


def rate_of(schedule: Schedule, count: int = 40) -> float:
    due, sizes = drawn(schedule, count)
    return float(8e9 * WIRE.wire_bytes(sizes)[:-1].sum() / (due[-1] - due[0]))


def test_poisson_gaps_are_exponential_and_independent() -> None:
    due, _ = drawn(PLAIN)
    gaps = np.diff(due, prepend=0)
    assert gaps.mean() == pytest.approx(1538 * 8 / 0.2, rel=0.02)
    assert stats.kstest(gaps, "expon", args=(0, PLAIN.mean_gap_ns)).pvalue > 0.01
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 0.02


def test_constant_gaps_are_equal_and_flows_begin_at_different_moments() -> None:
    (first, _), (second, _) = (drawn(replace(PLAIN, pattern="constant", seed=(0, n))) for n in (1, 2))
    for due in (first, second):
        assert set(np.diff(due)) <= {61_520, 61_519, 61_521}
        assert 0 <= due[0] < 61_520
    assert first[0] != second[0]


def test_all_senders_of_an_incast_send_at_the_same_moments_messages_of_their_own() -> None:
    spec = replace(PLAIN, pattern="incast", sizes="hadoop")
    (first, one), (second, other) = (drawn(replace(spec, seed=(0, n))) for n in (1, 2))
    assert first[0] == 0
    assert np.array_equal(first, second)
    assert not np.array_equal(one, other)


def test_on_off_sends_at_the_peak_rate_and_pauses() -> None:
    spec = replace(PLAIN, pattern="on-off")
    due, _ = drawn(spec, 40)
    gaps = np.diff(due)
    peak_gap = 1538 * 8 / 0.5
    assert gaps.min() >= peak_gap - 1
    pauses = gaps[gaps > peak_gap + 2] - peak_gap  # an off period, or several with a short on period between
    assert len(pauses) / len(gaps) == pytest.approx(peak_gap / spec.on_ns, rel=0.1)
    assert pauses.mean() == pytest.approx(spec.on_ns * 1.5, rel=0.1)
    assert np.mean(gaps <= peak_gap + 2) == pytest.approx(1 - peak_gap / spec.on_ns, rel=0.02)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("sizes", ["fixed", "hadoop"])
def test_the_mean_rate_on_the_wire_is_what_was_asked_for(pattern: str, sizes: str) -> None:
    spec = replace(PLAIN, pattern=pattern, sizes=sizes)
    assert rate_of(spec) == pytest.approx(200_000_000, rel=0.03 if "fixed" in sizes else 0.05)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_seed_gives_the_same_messages_and_another_one_others(pattern: str) -> None:
    spec = replace(PLAIN, pattern=pattern, sizes="web-search")
    (due, sizes), (again, same) = drawn(spec, 2), drawn(spec, 2)
    other_due, other_sizes = drawn(replace(spec, seed=(5, 1)), 2)
    assert np.array_equal(due, again)
    assert np.array_equal(sizes, same)
    assert not np.array_equal(sizes, other_sizes)
    assert np.array_equal(due, other_due) == (pattern == "incast")
    assert len(due) == 2 * BATCH


def test_the_mean_of_a_message_counts_the_headers_of_every_packet() -> None:
    assert PLAIN.mean_wire_bytes == 1538
    assert replace(PLAIN, size_bytes=1441).mean_wire_bytes == 1441 + 2 * 98
    assert replace(PLAIN, wire=WireSize(1000, 50, 7), size_bytes=2000).mean_wire_bytes == 2107
    assert WIRE.wire_bytes(1) == 99
    assert WIRE.wire_bytes(np.array([1, 2880])).tolist() == [99, 3076]


def test_the_largest_messages_in_the_smallest_packets_have_gaps_above_zero() -> None:
    spec = replace(
        PLAIN, pattern="on-off", sizes="data-mining", wire=WireSize(64, 150), rate_bps=10**6, peak_bps=2 * 10**6
    )
    due, _ = drawn(spec, 4)
    assert np.all(np.diff(due) > 0)
