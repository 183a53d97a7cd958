"""UDP datagrams out of IP packets; everything else is ignored for a reason."""

import dataclasses
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.annexes.bench_kit.audit.datagram import (
    LARGEST_PACKET,
    Datagram,
    Skipped,
    exceeds_one_packet,
    read_datagram,
    read_header,
    split,
)
from emulator.annexes.bench_kit.audit.flow import FrameRule
from emulator.annexes.bench_kit.audit.pcap import CapturedFrame
from emulator.roce.wire.headers import Bth
from emulator.roce.wire.icrc import UdpPath, icrc
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.packet import pack_icrc, pack_packet
from emulator.roce.wire.psn import Psn
from tests.support.roce_capture import (
    CLIENT,
    ETHERNET,
    ETHERNET_BYTES,
    MTU,
    SERVER,
    SERVER_QP,
    UDP_HEADERS,
    Conversation,
    audit_frames,
    conversation,
    ethernet,
    ip_datagram,
)


def test_trailing_bytes_of_short_ethernet_frames_do_not_matter() -> None:
    frames = [dataclasses.replace(frame, data=frame.data + bytes(6)) for frame in conversation().captured()]
    assert audit_frames(frames).violations == ()


def test_fields_that_routers_change_do_not_matter() -> None:
    path = UdpPath.between(CLIENT, SERVER, source_port=50001)
    packet = pack_packet(Bth(Opcode.RC_SEND_ONLY, Psn(1), SERVER_QP), payload=b"abcd")
    changed = ip_datagram(path, packet, traffic_class=0x6B, hop_limit=3)
    report = audit_frames([CapturedFrame(1, 0, ETHERNET, ethernet(changed))])
    assert report.violations == ()
    assert report.flows[0].flow.ce_marked == 1


def test_ipv6_extension_headers_are_skipped() -> None:
    talk = Conversation(is_v6=True)
    talk.write(4)
    data = talk.frames[0]
    ip, rest = bytearray(data[14:54]), data[54:]
    ip[4:6] = struct.pack(">H", len(rest) + 8)
    next_header, ip[6] = ip[6], 60
    report = audit_frames(
        [CapturedFrame(1, 0, ETHERNET, data[:14] + bytes(ip) + bytes([next_header]) + bytes(7) + rest)]
    )
    assert report.roce_frames == 1


def test_fragments_are_ignored_with_a_note() -> None:
    talk = conversation()
    fragment = bytearray(talk.frames[0])
    fragment[ETHERNET_BYTES + 6] = 0x20
    talk.frames[0] = bytes(fragment)
    report = talk.audit()
    assert report.roce_frames == 11
    assert "1 IP fragment ignored" in report.notes


def test_other_ports_and_protocols_are_ignored() -> None:
    talk = conversation()
    tcp = bytearray(talk.frames[0])
    tcp[ETHERNET_BYTES + 9] = 6
    talk.frames.append(bytes(tcp))
    talk.frames.append(bytes(12) + b"\x08\x06" + bytes(46))
    report = talk.audit()
    assert (report.frames, report.roce_frames, report.violations) == (14, 12, ())
    assert audit_frames(talk.captured(), port=4792).roce_frames == 0


PATH = UdpPath.between(CLIENT, SERVER, source_port=50001)
PATH_V6 = UdpPath.between("fd00::1", "fd00::2", source_port=50001)
PACKET = bytes(range(16))


def read(data: bytes) -> Datagram | Skipped:
    header = read_header(data)
    return header if isinstance(header, Skipped) else read_datagram(data, header, port=4791)


def whole(data: bytes) -> Datagram:
    found = read(data)
    assert isinstance(found, Datagram)
    return found


def changed(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


@pytest.mark.parametrize(("path", "header_bytes"), [(PATH, 20), (PATH_V6, 40)])
def test_a_datagram_is_read_with_its_addresses_and_ports(path: UdpPath, header_bytes: int) -> None:
    found = whole(ip_datagram(path, PACKET, ip_id=7, traffic_class=0x03))
    assert (found.source, found.destination) == (path.source, path.destination)
    assert (found.source_port, found.destination_port, found.header_bytes) == (50001, 4791, header_bytes)
    assert (found.payload[:-4], found.payload_bytes) == (PACKET, 20)
    assert (found.ip_id, found.is_ce_marked, found.is_whole) == (7 if header_bytes == 20 else 0, True, True)


@pytest.mark.parametrize("traffic_class", [0, 1, 2, 0xFC])
def test_only_the_third_ecn_code_point_is_congestion(traffic_class: int) -> None:
    assert not whole(ip_datagram(PATH, PACKET, traffic_class=traffic_class)).is_ce_marked
    assert not whole(ip_datagram(PATH_V6, PACKET, traffic_class=traffic_class)).is_ce_marked


def test_padding_is_not_part_of_a_datagram() -> None:
    assert whole(ip_datagram(PATH, PACKET) + bytes(18)).payload[:-4] == PACKET


def test_a_truncated_datagram_keeps_its_length() -> None:
    found = whole(ip_datagram(PATH, PACKET)[:-10])
    assert (found.payload, found.payload_bytes, found.is_whole) == (PACKET[:10], 20, False)


V4, V6 = ip_datagram(PATH, PACKET), ip_datagram(PATH_V6, PACKET)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", Skipped.CUT),
        (V4[:19], Skipped.CUT),
        (V4[:27], Skipped.CUT),
        (V6[:39], Skipped.CUT),
        (V6[:47], Skipped.CUT),
        (changed(V4, 0, b"\x44"), Skipped.NOT_UDP),  # a header of 16 bytes
        (changed(V4, 0, b"\x55"), Skipped.NOT_UDP),  # IP version 5
        (changed(V6, 0, b"\x50"), Skipped.NOT_UDP),
        (changed(V4, 9, b"\x06"), Skipped.NOT_UDP),  # TCP
        (changed(V6, 6, b"\x06"), Skipped.NOT_UDP),
        (changed(V4, 6, b"\x20"), Skipped.FRAGMENT),  # more fragments
        (changed(V4, 6, b"\x00\x01"), Skipped.FRAGMENT),  # a later fragment
        (changed(V4, 22, b"\x12\xb8"), Skipped.OTHER_PORT),
        (changed(V4, 24, b"\x00\x07"), Skipped.CUT),  # UDP length below its header
        (changed(V4, 2, b"\x00\x1b"), Skipped.CUT),  # IP length below the UDP header
    ],
)
def test_everything_else_is_ignored_for_a_reason(data: bytes, reason: Skipped) -> None:
    assert read(data) is reason


def test_a_packet_with_df_set_is_not_a_fragment() -> None:
    assert whole(changed(V4, 6, b"\x40\x00")).flags == 0x4000


def test_options_of_ipv4_are_skipped() -> None:
    longer = changed(V4[:20] + bytes(4) + V4[20:], 0, b"\x46")
    longer = changed(longer, 2, (len(longer)).to_bytes(2, "big"))
    assert whole(longer).payload[:-4] == PACKET


@given(st.binary(max_size=120), st.sampled_from([0x45, 0x46, 0x4F, 0x60, 0x6F]))
def test_any_bytes_are_read_or_ignored(data: bytes, first: int) -> None:
    found = read(bytes([first]) + data)
    if isinstance(found, Datagram):
        assert len(found.payload) <= found.payload_bytes


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
