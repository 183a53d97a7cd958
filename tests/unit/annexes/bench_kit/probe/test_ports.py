"""VLAN tags that the kernel takes out of received frames. tests/lab/test_probe.py has the sockets."""

from __future__ import annotations

import struct

import pytest

from emulator.annexes.bench_kit.probe.ports import with_vlan_tag

FRAME = bytes(range(12)) + b"\x08\x00" + b"payload"
SOL_PACKET, AUXDATA = 263, 8
VLAN_VALID, TPID_VALID = 1 << 4, 1 << 6


def auxdata(status: int, *, tag: int = 0x6064, protocol: int = 0x88A8) -> tuple[int, int, bytes]:
    return SOL_PACKET, AUXDATA, struct.pack("=IIIHHHH", status, 60, 60, 0, 0, tag, protocol)


@pytest.mark.parametrize(
    ("status", "tag"), [(VLAN_VALID | TPID_VALID, b"\x88\xa8\x60\x64"), (VLAN_VALID, b"\x81\x00\x60\x64")]
)
def test_a_tag_is_put_back_behind_the_addresses(status: int, tag: bytes) -> None:
    assert with_vlan_tag(FRAME, [auxdata(status)]) == FRAME[:12] + tag + FRAME[12:]


def test_a_frame_without_a_tag_stays_as_it_is() -> None:
    assert with_vlan_tag(FRAME, []) == FRAME
    assert with_vlan_tag(FRAME, [auxdata(0)]) == FRAME
    assert with_vlan_tag(FRAME, [(1, 2, b"other")]) == FRAME
