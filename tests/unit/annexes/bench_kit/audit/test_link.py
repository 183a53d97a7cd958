"""The IP header is found behind every link layer that RoCEv2 is captured on."""

from __future__ import annotations

import dataclasses
import struct

import pytest

from emulator.annexes.bench_kit.audit.link import content_of, is_supported
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
        (1, bytes(12) + b"\x81\x00\x00\x05"),  # ends within the VLAN tag
        (276, bytes(19)),
        (276, b"\x81\x00" + bytes(18) + b"\x00\x05"),
    ],
)
def test_a_frame_that_ends_before_its_ethertype_carries_nothing(link_type: int, data: bytes) -> None:
    assert content_of(link_type, data) is None


@pytest.mark.parametrize(
    ("link_type", "data", "ethertype"),
    [
        (1, bytes(12) + b"\x08\x06" + bytes(28), 0x0806),  # ARP
        (113, bytes(14) + b"\x88\xcc", 0x88CC),  # LLDP
        (276, b"\x08\x06" + bytes(18), 0x0806),
    ],
)
def test_other_frames_have_their_ethertype(link_type: int, data: bytes, ethertype: int) -> None:
    found = content_of(link_type, data)
    assert found is not None
    assert found[0] == ethertype


@pytest.mark.parametrize(("tags", "offset"), [(0, 14), (1, 18), (2, 22), (3, 26)])
def test_every_vlan_tag_moves_the_ip_header_by_four_bytes(tags: int, offset: int) -> None:
    assert content_of(1, bytes(12) + b"\x81\x00\x00\x05" * tags + b"\x86\xdd") == (0x86DD, offset)


def test_only_known_link_types_are_supported() -> None:
    assert is_supported(1)
    assert not is_supported(147)
