"""Finds the IP packet in a captured frame, by link type."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

_IPV4, _IPV6 = 0x0800, 0x86DD
_ETHERTYPES = (_IPV4, _IPV6)
_VLAN_TAGS = (0x8100, 0x88A8, 0x9100)
_WORD = struct.Struct(">H")
_GRE, _UDP = 47, 17
VXLAN_PORT = 4789
_ERSPAN = {0x88BE: 8, 0x22EB: 12}
"""GRE protocol type → bytes of ERSPAN's own header, type II and III. A type II frame has a GRE sequence number."""
_SEQUENCE, _KEY, _CHECKSUM = 0x1000, 0x2000, 0x8000


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


def mirrored_packet(ip: bytes) -> bytes | None:
    """The IP packet in a frame that a switch mirrored (ERSPAN) or that crosses a VXLAN; None: it is in neither.

    Source: RFC 7348 (VXLAN), RFC 2784 and 2890 (GRE), draft-foschiano-erspan.
    """
    version = ip[0] >> 4 if ip else 0
    header_bytes = (ip[0] & 0xF) * 4 if version == 4 else 40
    protocol_at = {4: 9, 6: 6}.get(version)
    if protocol_at is None or len(ip) < header_bytes + 8:
        return None
    inner = {_GRE: _after_gre, _UDP: _after_vxlan}.get(ip[protocol_at], lambda _: None)(ip[header_bytes:])
    offset = None if inner is None else _ethernet(inner)
    return None if inner is None or offset is None else inner[offset:]


def _after_gre(data: bytes) -> bytes | None:
    (flags,), (kind,) = _WORD.unpack_from(data, 0), _WORD.unpack_from(data, 2)
    if kind not in _ERSPAN:
        return None
    own_bytes = 0 if kind == 0x88BE and not flags & _SEQUENCE else _ERSPAN[kind]  # type I has none
    return data[4 + 4 * sum(bool(flags & one) for one in (_SEQUENCE, _KEY, _CHECKSUM)) + own_bytes :]


def _after_vxlan(data: bytes) -> bytes | None:
    (port,) = _WORD.unpack_from(data, 2)
    return data[16:] if port == VXLAN_PORT else None
