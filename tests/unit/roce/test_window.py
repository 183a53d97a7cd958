import pytest

from emulator.roce.connection.window import SendWindow, window_bytes
from emulator.roce.tuning import (
    LEAST_PACKETS_AFTER_LOSS,
    LEAST_WINDOW_BYTES,
    MOST_PACKETS_AFTER_LOSS,
    MOST_WINDOW_BYTES,
)


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


@pytest.mark.parametrize("peers", [0, 1, 7, 8, 31, 127])
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
