"""Times between two ports of a switch, from frames that the kernel stamped there."""

import socket
import struct
from collections.abc import Sequence

import pytest

from emulator.annexes.bench_kit.port_stamps import Seen, crossings, seen
from emulator.roce.wire.opcodes import Opcode

FIRST, LAST, ACK = Opcode.RC_WRITE_FIRST, Opcode.RC_WRITE_LAST_IMM, Opcode.RC_ACK
ENTERED = [Seen(FIRST, 7, 10, 1000), Seen(LAST, 7, 11, 1400), Seen(FIRST, 7, 12, 5000), Seen(LAST, 7, 13, 5300)]
LEFT = [Seen(FIRST, 7, 10, 1100), Seen(LAST, 7, 11, 1900), Seen(FIRST, 7, 12, 5100), Seen(LAST, 7, 13, 5750)]


def test_a_message_takes_from_its_first_packet_in_to_its_second_packet_out() -> None:
    assert crossings(ENTERED, LEFT) == [900, 750]


def test_numbers_of_packets_begin_again() -> None:
    assert crossings([Seen(FIRST, 7, 0xFFFFFF, 10)], [Seen(LAST, 7, 0, 25)]) == [15]


def test_another_queue_pair_and_other_packets_do_not_count() -> None:
    noise = [Seen(LAST, 8, 11, 1), Seen(ACK, 7, 11, 2), Seen(Opcode.RC_WRITE_MIDDLE, 7, 13, 3)]
    assert crossings(ENTERED, [*noise, *LEFT]) == [900, 750]


@pytest.mark.parametrize("again", [ENTERED[0], Seen(FIRST, 7, 10, 3000)])
def test_a_message_whose_packet_was_sent_again_is_left_out(again: Seen) -> None:
    assert crossings([*ENTERED, again], LEFT) == [750]


def test_a_message_that_was_lost_is_left_out() -> None:
    assert crossings(ENTERED, LEFT[2:]) == [750]


class Frames:
    """Stands in for a packet socket: frames, and when the kernel saw each, s and ns; None: it has no stamp."""

    def __init__(self, frames: Sequence[tuple[bytes, tuple[int, int] | None]]) -> None:
        self._frames = list(frames)

    def recvmsg(self, size: int, room: int) -> tuple[bytes, list[tuple[int, int, bytes]], int, object]:
        if not self._frames:
            raise BlockingIOError
        frame, at = self._frames.pop(0)
        control = [] if at is None else [(socket.SOL_SOCKET, 35, struct.pack("=qq", *at))]
        return frame[:size], control, 0, None


def frame(opcode: int, queue_pair: int, psn: int, *, port: int = 4791, ether_type: int = 0x0800) -> bytes:
    """Ethernet, IPv4, UDP and BTH, and some payload."""
    head = bytes(12) + ether_type.to_bytes(2) + bytes(20) + struct.pack("!HHHH", 49152, port, 0, 0)
    return head + struct.pack("!BBHII", opcode, 0, 0xFFFF, queue_pair, 1 << 31 | psn) + bytes(64)


def test_frames_are_read_with_the_time_of_the_kernel() -> None:
    ends = [
        (frame(FIRST, 0x123456, 77), (12, 5)),
        (frame(FIRST, 1, 2, port=53), (12, 6)),
        (frame(FIRST, 1, 2, ether_type=0x86DD), (12, 7)),
        (frame(FIRST, 1, 2)[:50], (12, 8)),
        (frame(FIRST, 1, 2), None),
        (frame(LAST, 0x123456, 78), (13, 9)),
    ]
    assert list(seen(Frames(ends))) == [  # type: ignore[arg-type]
        Seen(FIRST, 0x123456, 77, 12_000_000_005),
        Seen(LAST, 0x123456, 78, 13_000_000_009),
    ]
