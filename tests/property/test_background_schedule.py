"""Schedules of background traffic, for all patterns, sizes, rates and seeds: time never goes back, and rates hold."""

from itertools import islice

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from emulator.flows.background import DISTRIBUTIONS, PATTERNS, Schedule, WireSize, batches


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    rate_bps = draw(st.integers(10**6, 10**11))
    return Schedule(
        pattern=draw(st.sampled_from(sorted(PATTERNS))),
        sizes=draw(st.sampled_from(["fixed", *DISTRIBUTIONS])),
        size_bytes=draw(st.integers(1, 1 << 20)),
        rate_bps=rate_bps,
        peak_bps=rate_bps * draw(st.integers(2, 20)),
        on_ns=draw(st.integers(10**3, 10**8)),
        wire=WireSize(draw(st.integers(64, 9000)), draw(st.integers(1, 150)), draw(st.integers(0, 50))),
        seed=(draw(st.integers(0, 2**64 - 1)), draw(st.integers(0, 99))),
    )


@given(schedules())
def test_messages_are_due_in_order_and_have_sizes_of_their_distribution(schedule: Schedule) -> None:
    found = list(islice(batches(schedule), 2))
    due = np.concatenate([one.due_ns for one in found])
    sizes = np.concatenate([one.size_bytes for one in found])
    assert due[0] >= 0
    assert np.all(np.diff(due) >= 0)
    largest = max(1, schedule.distribution.points[-1][0] * schedule.distribution.unit_bytes)
    assert sizes.min() >= 1
    assert sizes.max() <= largest


@given(schedules())
def test_gaps_have_the_mean_that_the_rate_needs(schedule: Schedule) -> None:
    """Within what 8,192 exponential gaps vary; on-off varies with its periods, and is never above its peak."""
    found = list(islice(batches(schedule), 2))
    due = np.concatenate([one.due_ns for one in found]).astype(np.float64)
    sizes = np.concatenate([one.size_bytes for one in found])
    if schedule.pattern == "on-off":
        wire = schedule.wire.wire_bytes(sizes)
        least_ns = float(wire[:-1].sum()) * 8e9 / schedule.peak_bps
        assert due[-1] - due[0] >= least_ns * (1 - 1e-6) - 2
        return
    mean_ns = (due[-1] - due[0]) / (len(due) - 1)
    slack = 6 / np.sqrt(len(due)) if schedule.pattern == "poisson" else 1e-6
    assert abs(mean_ns - schedule.mean_gap_ns) <= slack * schedule.mean_gap_ns + 1
