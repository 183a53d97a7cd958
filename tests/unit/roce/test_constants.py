"""Facts of RoCEv2 agree with one another and with the specification."""

import pytest

from emulator.roce import constants


def test_path_mtus_are_the_five_of_the_specification() -> None:
    assert tuple(1 << power for power in range(8, 13)) == constants.PATH_MTUS


@pytest.mark.parametrize("mtu", constants.PATH_MTUS)
def test_the_largest_message_fits_half_the_packet_sequence_numbers(mtu: int) -> None:
    assert constants.LARGEST_MESSAGE_BYTES // mtu <= 1 << 23


def test_the_default_message_fits_and_fills_whole_packets() -> None:
    assert constants.DEFAULT_MESSAGE_BYTES <= constants.LARGEST_MESSAGE_BYTES
    assert all(constants.DEFAULT_MESSAGE_BYTES % mtu == 0 for mtu in constants.PATH_MTUS)


def test_the_smallest_window_has_several_acknowledgements() -> None:
    assert constants.LEAST_WINDOW_PACKETS // constants.ACKS_PER_WINDOW > 1
