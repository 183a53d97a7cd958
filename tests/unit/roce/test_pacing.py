"""A pacer holds a mean rate over runs of any size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from emulator.roce.rate.pacing import Pacer


def test_a_pacer_holds_the_mean_rate_whatever_the_sizes() -> None:
    pacer = Pacer(allowance_ns=1000)
    now = 0
    for size in (4112, 100, 65_000, 4112):
        now = max(now, pacer.next_ns)
        pacer.charge(size, rate_bps=8e9, now=now)
    assert pacer.next_ns == 4112 + 100 + 65_000 + 4112  # 1 byte per ns


def test_a_pacer_makes_up_for_a_late_timer_but_not_for_a_pause() -> None:
    pacer = Pacer(allowance_ns=1000)
    pacer.charge(5000, rate_bps=8e9, now=0)
    pacer.charge(5000, rate_bps=8e9, now=5400)
    assert pacer.next_ns == 10_000
    pacer.charge(5000, rate_bps=8e9, now=1_000_000)
    assert pacer.next_ns == 1_000_000 - 1000 + 5000


def test_runs_get_short_at_low_rates() -> None:
    pacer = Pacer(burst_ns=100_000)
    assert pacer.most_packets(rate_bps=100e9, packet_bytes=4112) == 303
    assert pacer.most_packets(rate_bps=1e6, packet_bytes=4112) == 1


def test_runs_may_last_as_long_as_they_may_go_before_their_time() -> None:
    pacer = Pacer(burst_ns=1_000_000)
    leads_ns = (0, 1_000_000, 5_000_000)
    assert [pacer.most_packets(rate_bps=1e9, packet_bytes=1250, lead_ns=lead) for lead in leads_ns] == [100, 100, 500]


@given(st.lists(st.tuples(st.integers(1, 1 << 20), st.integers(0, 2_000_000)), min_size=1, max_size=50))
def test_no_more_than_an_allowance_is_ever_sent_ahead_of_the_rate(runs: list[tuple[int, int]]) -> None:
    """Runs of any size, each as soon as the pacer lets it go and some time later."""
    pacer, now, sent, began = Pacer(allowance_ns=1000), 0, 0, 0
    for size, delay in runs:
        now = max(now, pacer.next_ns) + delay
        span_ns = pacer.charge(size, rate_bps=8e9, now=now)  # 1 byte per ns
        assert span_ns == size
        sent += size
        assert sent <= pacer.next_ns - began + 1000
