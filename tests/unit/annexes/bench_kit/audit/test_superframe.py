"""Super-frames are split into their packets."""

from __future__ import annotations

import dataclasses

import pytest

from emulator.annexes.bench_kit.audit.link import CapturedFrame
from emulator.annexes.bench_kit.audit.rules import FrameRule
from emulator.annexes.bench_kit.audit.superframe import LARGEST_PACKET, exceeds_one_packet, split
from emulator.roce.wire.headers import Bth
from emulator.roce.wire.icrc import UdpPath, icrc
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.packet import pack_icrc, pack_packet
from emulator.roce.wire.psn import Psn
from tests.support.roce_capture import (
    CLIENT,
    ETHERNET,
    MTU,
    SERVER,
    SERVER_QP,
    UDP_HEADERS,
    audit_frames,
    conversation,
    ethernet,
    ip_datagram,
)


def superframe(path: UdpPath, packets: list[bytes], *, first_id: int = 0) -> CapturedFrame:
    """A capture before segmentation: packets, each with the ICRC that it has on the wire, after one header."""
    whole = b"".join(
        packet + pack_icrc(icrc(path, packet, ip_id=first_id + index)) for index, packet in enumerate(packets)
    )
    data = ethernet(ip_datagram(path, whole[:-4], ip_id=first_id, crc=int.from_bytes(whole[-4:], "little")))
    return CapturedFrame(1, 0, ETHERNET, data)


def middles(count: int, *, payload: int = MTU) -> list[bytes]:
    return [
        pack_packet(Bth(Opcode.RC_SEND_MIDDLE, Psn(50 + index), SERVER_QP), payload=bytes([7]) * payload)
        for index in range(count)
    ]


@pytest.mark.parametrize("source", [CLIENT, "fd00::1"])
@pytest.mark.parametrize("count", [2, 3, 60])
def test_super_frames_are_split_into_their_packets(source: str, count: int) -> None:
    path = UdpPath.between(source, SERVER if source == CLIENT else "fd00::2", source_port=50001)
    last = pack_packet(Bth(Opcode.RC_SEND_LAST, Psn(50 + count), SERVER_QP), payload=b"last")
    report = audit_frames([superframe(path, [*middles(count), last], first_id=9)])
    assert report.violations == ()
    assert report.superframes == 1
    assert report.flows[0].flow.opcodes == {Opcode.RC_SEND_MIDDLE: count, Opcode.RC_SEND_LAST: 1}
    assert report.flows[0].flow.icrc_good == count + 1
    assert any("1 super-frame (" in note for note in report.notes)


def test_a_damaged_packet_in_a_superframe_is_found() -> None:
    frame = superframe(UdpPath.between(CLIENT, SERVER, source_port=50001), middles(4))
    data = bytearray(frame.data)
    data[UDP_HEADERS + 2 * (MTU + 16) + 100] ^= 0xFF
    report = audit_frames([dataclasses.replace(frame, data=bytes(data))])
    assert [one.rule for one in report.violations] == [FrameRule.ICRC]
    assert report.flows[0].flow.icrc_good == 3


def test_a_long_datagram_without_packet_boundaries_is_ignored_with_a_note() -> None:
    path = UdpPath.between(CLIENT, SERVER, source_port=50001)
    packet = pack_packet(Bth(Opcode.RC_SEND_MIDDLE, Psn(1), SERVER_QP), payload=bytes(9000))
    report = audit_frames([CapturedFrame(1, 0, ETHERNET, ethernet(ip_datagram(path, packet, crc=1)))])
    assert report.violations == ()
    assert any("no packet boundaries" in note for note in report.notes)


@pytest.mark.parametrize("count", [2, 40])
def test_a_truncated_super_frame_causes_no_violations_and_hides_none(count: int) -> None:
    """As with tcpdump -s 96: the packets in it are unknown, so gaps after it are not violations of the sender."""
    talk = conversation()
    whole = superframe(talk.to_server, middles(count))
    part = dataclasses.replace(whole, data=whole.data[:96])
    talk.psn += count
    begun = len(talk.frames)
    talk.write(2 * MTU + 1)
    talk.ack(messages=1)
    frames = list(talk.captured())
    report = audit_frames([*frames[:begun], part, *frames[begun:]])
    assert report.violations == ()
    assert report.superframes == 1
    assert report.flows[0].goodput_bps is None
    assert any("1 super-frame captured in part" in note for note in report.notes)
    damaged = bytearray(frames[0].data)
    damaged[-1] ^= 1
    again = audit_frames([dataclasses.replace(frames[0], data=bytes(damaged)), part, *frames[1:]])
    assert [one.rule for one in again.violations] == [FrameRule.ICRC]


TAIL = bytes([Opcode.RC_SEND_LAST, 0x00, 0xFF, 0xFF, 0, 0, 0, SERVER_QP, 0, 0, 0, 9])


def test_a_single_packet_is_not_split() -> None:
    packet = middles(1)[0] + bytes(4)
    assert split(packet) == [packet]


@pytest.mark.parametrize("last", [16, 60, MTU + 16])
def test_packets_of_one_length_and_a_shorter_last_one_are_split(last: int) -> None:
    packets = [one + bytes(4) for one in [*middles(3), TAIL + bytes(last - 16)]]
    assert split(b"".join(packets)) == packets


def test_a_rest_that_is_too_short_for_a_packet_is_not_split_off() -> None:
    payload = b"".join(one + bytes(4) for one in middles(2)) + bytes(12)
    assert split(payload) == [payload]


def test_payload_that_looks_like_a_header_does_not_split_a_packet() -> None:
    (packet,) = middles(1)
    payload = packet[:42] + packet[2:8] + packet[48:] + bytes(4)
    assert split(payload) == [payload]


@pytest.mark.parametrize(
    ("opcode", "udp_payload_bytes", "is_superframe"),
    [
        (Opcode.RC_SEND_MIDDLE, 1024 + 16, False),
        (Opcode.RC_SEND_MIDDLE, 2 * (1024 + 16), True),
        (Opcode.RC_WRITE_FIRST, 1024 + 16 + 16, False),
        (Opcode.RC_WRITE_FIRST, 1024 + 16, True),
        (Opcode.RC_SEND_LAST, 2 * (1024 + 16), False),
        (Opcode.RC_SEND_LAST, LARGEST_PACKET, False),
        (Opcode.RC_SEND_LAST, LARGEST_PACKET + 1, True),
        (0xFF, 1000, False),
    ],
)
def test_a_truncated_payload_that_no_single_packet_can_have_is_a_superframe(
    opcode: int, udp_payload_bytes: int, is_superframe: bool
) -> None:
    assert exceeds_one_packet(bytes([opcode, 0]), udp_payload_bytes) is is_superframe
