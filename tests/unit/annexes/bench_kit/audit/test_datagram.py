"""UDP datagrams out of IP packets; everything else is ignored for a reason."""

from __future__ import annotations

import dataclasses
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.annexes.bench_kit.audit.datagram import Datagram, Skipped, read_datagram, read_header
from emulator.annexes.bench_kit.audit.link import CapturedFrame
from emulator.roce.wire.headers import Bth
from emulator.roce.wire.icrc import UdpPath
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.packet import pack_packet
from emulator.roce.wire.psn import Psn
from tests.support.roce_capture import (
    CLIENT,
    ETHERNET,
    ETHERNET_BYTES,
    SERVER,
    SERVER_QP,
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
