"""The IP header is found behind every link layer that RoCEv2 is captured on."""

from __future__ import annotations

import dataclasses
import struct

import pytest

from emulator.audit.link import ip_offset, is_supported
from tests.support.roce_capture import ETHERNET_BYTES, MTU, audit_frames, conversation


@pytest.mark.parametrize(
    ("link_type", "header"),
    [
        (1, bytes(12) + b"\x81\x00\x00\x05\x08\x00"),
        (1, bytes(12) + b"\x88\xa8\x00\x05\x81\x00\x00\x06\x08\x00"),
        (0, struct.pack("<I", 2)),
        (108, struct.pack(">I", 2)),
        (12, b""),
        (14, b""),
        (101, b""),
        (228, b""),
        (113, bytes(14) + b"\x08\x00"),
        (113, bytes(14) + b"\x81\x00\x00\x05\x08\x00"),
        (276, b"\x08\x00" + bytes(18)),
        (276, b"\x81\x00" + bytes(18) + b"\x00\x05\x08\x00"),
    ],
)
def test_link_types(link_type: int, header: bytes) -> None:
    frames = [
        dataclasses.replace(frame, link_type=link_type, data=header + frame.data[ETHERNET_BYTES:])
        for frame in conversation().captured()
    ]
    report = audit_frames(frames)
    assert report.roce_frames == len(frames)
    assert report.violations == ()
    assert report.flows[0].messages.sizes == {2 * MTU + 1: 3}


def test_an_unsupported_link_type_is_noted() -> None:
    frames = [dataclasses.replace(frame, link_type=147) for frame in conversation().captured()]
    report = audit_frames(frames)
    assert report.roce_frames == 0
    assert report.notes == ("12 frames ignored: link type 147 is not supported",)


@pytest.mark.parametrize(
    ("link_type", "data"),
    [
        (1, b""),
        (1, bytes(12)),
        (1, bytes(12) + b"\x08\x06" + bytes(28)),  # ARP
        (1, bytes(12) + b"\x81\x00\x00\x05"),  # ends within the VLAN tag
        (113, bytes(14) + b"\x88\xcc"),  # LLDP
        (276, bytes(19)),
        (276, b"\x08\x06" + bytes(18)),
        (276, b"\x81\x00" + bytes(18) + b"\x00\x05"),
        (147, bytes(64)),
    ],
)
def test_a_frame_without_an_ip_packet_has_no_offset(link_type: int, data: bytes) -> None:
    assert ip_offset(link_type, data) is None


@pytest.mark.parametrize(("tags", "offset"), [(0, 14), (1, 18), (2, 22), (3, 26)])
def test_every_vlan_tag_moves_the_ip_header_by_four_bytes(tags: int, offset: int) -> None:
    assert ip_offset(1, bytes(12) + b"\x81\x00\x00\x05" * tags + b"\x86\xdd") == offset


def test_only_known_link_types_are_supported() -> None:
    assert is_supported(1)
    assert not is_supported(147)


def outer_ip(protocol: int, payload: bytes) -> bytes:
    """Ethernet and IPv4 around a tunnel's payload."""
    header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, 0, bytes(4), bytes(4))
    return bytes(12) + b"\x08\x00" + header + payload


@pytest.mark.parametrize(
    ("protocol", "header"),
    [
        (17, struct.pack(">HHHH", 5000, 4789, 0, 0) + b"\x08" + bytes(7)),  # VXLAN
        (47, b"\x00\x00\x88\xbe"),  # ERSPAN type I
        (47, b"\x10\x00\x88\xbe" + bytes(4) + bytes(8)),  # type II, with a sequence number
        (47, b"\x10\x00\x22\xeb" + bytes(4) + bytes(12)),  # type III
    ],
)
def test_mirrored_frames_are_judged_by_the_frame_within(protocol: int, header: bytes) -> None:
    plain = list(conversation().captured())
    frames = [dataclasses.replace(one, data=outer_ip(protocol, header + one.data)) for one in plain]
    report = audit_frames(frames)
    assert (report.roce_frames, report.violations) == (len(plain), ())
    note = f"{len(plain)} frames mirrored or tunnelled (ERSPAN, VXLAN): the inner one is judged"
    assert note in report.notes
    assert note not in audit_frames(plain).notes


def test_tunnels_of_other_kinds_and_cut_ones_are_no_roce() -> None:
    [first, *_] = conversation().captured()
    for protocol, payload in ((47, b"\x00\x00\x65\x58" + first.data), (47, b"\x10\x00\x88\xbe"), (17, bytes(8))):
        assert audit_frames([dataclasses.replace(first, data=outer_ip(protocol, payload)), first]).roce_frames == 1
