"""What a captured frame carries, by link type."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

IPV4, IPV6 = 0x0800, 0x86DD
IP_TYPES = (IPV4, IPV6)
ETHERNET = 1
"""Its link type."""
Content: TypeAlias = tuple[int, int]
"""EtherType of what a frame carries, and offset of that."""

_VLAN_TAGS = (0x8100, 0x88A8, 0x9100)
_WORD = struct.Struct(">H")


@dataclass(frozen=True, slots=True)
class CapturedFrame:
    """A frame of a capture file.

    Attributes:
        number: from 1, over the whole file.
        time_ns: since the epoch; None if the file has no times.
        link_type: number of the pcap format.
        data: the frame, possibly truncated by the capture.
    """

    number: int
    time_ns: int | None
    link_type: int
    data: bytes


def _after_ethertype(data: bytes, offset: int) -> Content | None:
    """The content behind an EtherType and VLAN tags, given the offset of the EtherType."""
    while len(data) >= offset + 2:
        (ethertype,) = _WORD.unpack_from(data, offset)
        if ethertype not in _VLAN_TAGS:
            return ethertype, offset + 2
        offset += 4
    return None


def _ethernet(data: bytes) -> Content | None:
    return _after_ethertype(data, 12)


def _cooked(data: bytes) -> Content | None:
    return _after_ethertype(data, 14)


def _cooked_v2(data: bytes) -> Content | None:
    if len(data) < 20:
        return None
    (protocol,) = _WORD.unpack_from(data, 0)
    if protocol in _VLAN_TAGS:
        return _after_ethertype(data, 22)
    return protocol, 20


def _raw(data: bytes) -> Content | None:
    return IPV4, 0  # the IP version is in the packet, too


def _loopback(data: bytes) -> Content | None:
    # The address family before the packet depends on the host that captured it; the IP version suffices.
    return IPV4, 4


_LINK_TYPES: dict[int, Callable[[bytes], Content | None]] = {
    0: _loopback,
    ETHERNET: _ethernet,
    12: _raw,
    14: _raw,
    101: _raw,
    108: _loopback,
    113: _cooked,
    228: _raw,
    229: _raw,
    276: _cooked_v2,
}
"""Functions that find the content, by link type (tcpdump.org, link-layer header types)."""


def is_supported(link_type: int) -> bool:
    """Whether frames of this link type can be read."""
    return link_type in _LINK_TYPES


def content_of(link_type: int, data: bytes) -> Content | None:
    """What a frame of a supported link type carries; None if it is truncated before that."""
    return _LINK_TYPES[link_type](data)
