import pytest

from agents.transports.roce.link import LEAST_WINDOW_BYTES, MOST_WINDOW_BYTES, window_bytes

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
