"""A pacer holds a mean rate over runs of any size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.roce.pacing import FixedRate, Pacer, SendWindow, window_bytes
from emulator.roce.tuning import (
    LEAST_PACKETS_AFTER_LOSS,
    LEAST_WINDOW_BYTES,
    MOST_PACKETS_AFTER_LOSS,
    MOST_WINDOW_BYTES,
)


@pytest.mark.parametrize("rate", [None, 1e9])
def test_neither_notifications_nor_bytes_change_a_fixed_rate(rate: float | None) -> None:
    control = FixedRate(rate)
    control.notified(5)
    control.sent(1 << 30, 6)
    assert control.rate_bps(7) == rate


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


def window(most: int = 512) -> SendWindow:
    return SendWindow(most, most_ack_interval=most // 2, most_per_run=15)


def test_a_loss_halves_it_down_to_a_floor_and_more_of_it_asks_for_acknowledgements() -> None:
    one = window()
    sizes = []
    for _ in range(8):
        one.lost()
        sizes.append((one.packets, one.ack_interval, one.smallest_run))
    assert sizes[:3] == [(256, 64, 15), (128, 32, 15), (64, 16, 8)]
    assert sizes[-1] == (LEAST_PACKETS_AFTER_LOSS, 2, 1)


def test_it_grows_in_proportion_to_what_arrives_until_nothing_holds_it_down() -> None:
    one = window()
    one.lost()
    one.acknowledged(256)
    assert one.packets == 256 + 16
    while one.is_reduced:
        one.acknowledged(one.packets)
    assert (one.packets, one.ack_interval, one.smallest_run) == (512, 256, 15)


def test_it_never_exceeds_what_the_settings_allow() -> None:
    one = window(10)
    one.lost()
    assert one.packets == LEAST_PACKETS_AFTER_LOSS
    assert [one.open() for _ in range(6)] == [True] * 4 + [False] * 2
    assert one.packets == 10
    tiny = window(2)
    tiny.lost()
    assert (tiny.packets, tiny.is_reduced) == (2, False)


GRANTED = 64 << 20


@pytest.mark.parametrize("peers", [0, 1, 7, 8, 31, 63])
def test_windows_of_all_peers_fit_the_buffer_while_they_are_few(peers: int) -> None:
    assert peers * window_bytes(GRANTED, peers=peers) <= GRANTED
    assert LEAST_WINDOW_BYTES <= window_bytes(GRANTED, peers=peers) <= MOST_WINDOW_BYTES


def test_a_window_stays_useful_among_many_peers() -> None:
    assert window_bytes(GRANTED, peers=1023) == LEAST_WINDOW_BYTES


@pytest.mark.parametrize("peers", [1, 1023])
def test_a_window_is_at_most_half_of_a_small_buffer(peers: int) -> None:
    assert window_bytes(212_992, peers=peers) == 106_496


def test_a_large_window_falls_to_what_helps_after_a_loss() -> None:
    window = SendWindow(4096, most_ack_interval=2048, most_per_run=1)
    window.lost()
    assert window.packets == MOST_PACKETS_AFTER_LOSS
