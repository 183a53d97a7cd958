"""The reader of captures that the matrix of stock perftest tests judges by."""

from tests.guest.matrix import Frame, icrc_is_right, roce_frames
from tests.support.shared_traces import require_shared


def test_a_flipped_bit_is_found_without_the_audit() -> None:
    frame = next(roce_frames(require_shared("golden", "rocev2", "write_only_64.pcap")))
    assert icrc_is_right(frame)
    broken = bytearray(frame.udp)
    broken[40] ^= 4
    assert not icrc_is_right(Frame(frame.network, bytes(broken), frame.source))
