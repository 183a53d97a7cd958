"""Headers of the dialect: there and back, and what a run differs in."""

import numpy as np
import pytest

from emulator.roce.connection.messages import Message, Verb
from emulator.roce.multipath.wire import (
    SELECTIVE_ACK,
    Reason,
    Report,
    SelectiveAck,
    icrc_changes,
    is_header_sound,
    parse_write,
    probe_header,
    words_of,
    write_header,
)
from emulator.roce.wire.icrc import UdpPath, icrc
from emulator.roce.wire.packet import Problem, parse_packet
from emulator.roce.wire.psn import Psn

PATH = UdpPath(bytes(4), bytes(4), 50_000)


def message(packets: int, verb: Verb = Verb.WRITE_IMM) -> Message:
    return Message(verb, packets * 256, address=1 << 40, imm=3, rkey=9, packets=packets)


def test_a_packet_says_where_it_belongs_and_whether_it_is_the_last() -> None:
    first = parse_write(write_header(message(3), Psn(7), 0, 256, dest_qp=5, path_mtu=256))
    last = parse_write(write_header(message(3), Psn(9), 2, 256, dest_qp=5, path_mtu=256))
    assert first == (Psn(7), 1 << 40, 9, 256, None, False, 28)
    assert last == (Psn(9), (1 << 40) + 512, 9, 256, 3, True, 32)


def test_data_is_what_any_decoder_takes_for_a_write_of_one_packet() -> None:
    header = write_header(message(3), Psn(7), 0, 256, dest_qp=5, path_mtu=256)
    assert not isinstance(parse_packet(header + bytes(256) + bytes(4)), Problem)
    assert not isinstance(parse_packet(probe_header(Psn(7), dest_qp=5, rkey=9) + bytes(4)), Problem)


def test_an_acknowledgement_is_no_packet_of_a_known_service() -> None:
    ack = SelectiveAck(Psn(8), 0x1F, 4, b"\x06", [Report(Reason.TRIMMED, Psn(9))])
    packed = ack.pack(5) + bytes(4)
    assert packed[0] == SELECTIVE_ACK == 0xD1
    assert parse_packet(packed) is Problem.OPCODE
    found = SelectiveAck.parse(packed)
    assert (found.psn, found.syndrome, found.msn, found.bitmap) == (8, 0x1F, 4, b"\x06\0\0\0")
    assert found.reports == [Report(Reason.TRIMMED, Psn(9))]
    assert SelectiveAck.parse(packed[:-4]) is None
    assert is_header_sound(packed, 5)
    assert not is_header_sound(packed, 6)


@pytest.mark.parametrize("stride", [3, 1])
def test_icrcs_of_a_run_follow_from_the_first(stride: int) -> None:
    packets = [
        write_header(message(90), Psn(0xFFFF + place), place, 256, dest_qp=5, path_mtu=256) + bytes(256)
        for place in range(0, 60, stride)
    ]
    whole = b"".join(packet + bytes(4) for packet in packets)
    changes = icrc_changes(words_of(whole, len(packets), 288), 288)
    first = icrc(PATH, packets[0])
    assert (changes ^ np.uint32(first)).tolist() == [icrc(PATH, packet) for packet in packets]


def test_packets_that_differ_in_more_are_no_run() -> None:
    one, other = (write_header(message(9), Psn(1), 1, size, dest_qp=5, path_mtu=256) for size in (256, 252))
    assert icrc_changes(words_of(one + other, 2, 28), 28) is None
