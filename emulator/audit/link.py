"""Finds the IP packet in a captured frame, by link type."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

_IPV4, _IPV6 = 0x0800, 0x86DD
_ETHERTYPES = (_IPV4, _IPV6)
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


def _after_ethertype(data: bytes, offset: int) -> int | None:
    """Offset of the IP header, given the offset of the EtherType."""
    while len(data) >= offset + 2:
        (ethertype,) = _WORD.unpack_from(data, offset)
        if ethertype not in _VLAN_TAGS:
            return offset + 2 if ethertype in _ETHERTYPES else None
        offset += 4
    return None


def _ethernet(data: bytes) -> int | None:
    return _after_ethertype(data, 12)


def _cooked(data: bytes) -> int | None:
    return _after_ethertype(data, 14)


def _cooked_v2(data: bytes) -> int | None:
    if len(data) < 20:
        return None
    (protocol,) = _WORD.unpack_from(data, 0)
    if protocol in _VLAN_TAGS:
        return _after_ethertype(data, 22)
    return 20 if protocol in _ETHERTYPES else None


def _raw(data: bytes) -> int | None:
    return 0


def _loopback(data: bytes) -> int | None:
    # The address family before the packet depends on the host that captured it; the IP version suffices.
    return 4


_LINK_TYPES: dict[int, Callable[[bytes], int | None]] = {
    0: _loopback,
    1: _ethernet,
    12: _raw,
    14: _raw,
    101: _raw,
    108: _loopback,
    113: _cooked,
    228: _raw,
    229: _raw,
    276: _cooked_v2,
}
"""Functions that find the IP header, by link type (tcpdump.org, link-layer header types)."""


def is_supported(link_type: int) -> bool:
    """Whether frames of this link type can be read."""
    return link_type in _LINK_TYPES


def ip_offset(link_type: int, data: bytes) -> int | None:
    """Offset of the IP header in a frame; None if the frame carries no IP, or is truncated before it."""
    locate = _LINK_TYPES.get(link_type)
    return None if locate is None else locate(data)
