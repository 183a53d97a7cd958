"""Captured UDP datagrams, IPv4 and IPv6, and super-frames: several packets in one of them.

A host that sends with UDP_SEGMENT hands up to 64 KiB to the kernel in one call. On the loopback device, and on the
sender before segmentation, that is captured as one datagram. All its packets have the same length; the last one can be
shorter.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from emulator.roce.constants import BTH_BYTES, ICRC_BYTES, PATH_MTUS
from emulator.roce.wire.icrc import UdpPath, icrc, recover_ip_id
from emulator.roce.wire.opcodes import MEANINGS, PacketPlace

_V4 = struct.Struct(">BBHHHBBH4s4s")
_V6 = struct.Struct(">IHBB16s16s")
_UDP = struct.Struct(">HHHH")
_V6_FRAGMENT_HEADER = struct.Struct(">BBHI")
_UDP_PROTOCOL = 17
_WITH_FRAGMENTS = (_UDP_PROTOCOL, 4, 41, 47, 137)  # also fragments of what encapsulates: IP in IP, GRE, MPLS
_FRAGMENT = 0x3FFF  # "more fragments", and the fragment offset
_SKIPPED_V6_HEADERS = (0, 43, 60)  # hop-by-hop, routing, destination options
_V6_FRAGMENT, _V6_FRAGMENT_BITS = 44, 0xFFF9
_CE = 3


class Skipped(Enum):
    """Why the audit ignores a frame."""

    NOT_UDP = auto()
    OTHER_PORT = auto()
    FRAGMENT = auto()
    CUT = auto()
    ENCAPSULATED = auto()
    ROCE_V1 = auto()


@dataclass(slots=True)
class Datagram:
    """A UDP datagram, possibly truncated.

    Attributes:
        ip: IP header and payload, as far as they were captured.
        header_bytes: length of the IP header, with its extensions.
        payload_bytes: length of the UDP payload according to the headers.
        source, destination: packed IP addresses.
        ip_id, flags: of IPv4; `flags` with the fragment offset. 0 for IPv6.
        is_ce_marked: a switch marked it Congestion Experienced.
        ends: addresses of each IP header of encapsulated packets; empty for others.
    """

    ip: bytes
    header_bytes: int
    payload_bytes: int
    source: bytes
    destination: bytes
    source_port: int
    destination_port: int
    ip_id: int
    flags: int
    is_ce_marked: bool
    ends: Sequence[frozenset[bytes]] = ()

    @property
    def payload(self) -> bytes:
        """The UDP payload, as far as it was captured."""
        start = self.header_bytes + _UDP.size
        return self.ip[start : start + self.payload_bytes]

    @property
    def is_whole(self) -> bool:
        """Whether the whole datagram was captured."""
        return len(self.ip) == self.header_bytes + _UDP.size + self.payload_bytes


@dataclass(slots=True)
class IpHeader:
    """An IP header; `header_bytes` with its extensions, `flags` with the fragment offset."""

    header_bytes: int
    datagram_bytes: int
    protocol: int
    source: bytes
    destination: bytes
    ip_id: int
    flags: int
    traffic_class: int

    @property
    def is_fragment(self) -> bool:
        """Whether the packet is only a part of a datagram."""
        return bool(self.flags & _FRAGMENT)


def read_header(ip: bytes) -> IpHeader | Skipped:
    """The IP header of a packet, or the reason to ignore it. Never raises."""
    return _read_v4(ip) if ip[:1] and ip[0] >> 4 == 4 else _read_v6(ip)


def read_datagram(ip: bytes, header: IpHeader, *, port: int) -> Datagram | Skipped:
    """The UDP datagram in an IP packet. Never raises.

    Args:
        ip: the packet, possibly truncated, or followed by link-layer padding.
        header: of the packet.
        port: the UDP destination port.

    Returns:
        The datagram, or the reason to ignore the packet.
    """
    if header.is_fragment and header.protocol in _WITH_FRAGMENTS:
        return Skipped.FRAGMENT
    if header.protocol != _UDP_PROTOCOL:
        return Skipped.NOT_UDP
    if len(ip) < header.header_bytes + _UDP.size:
        return Skipped.CUT
    source_port, destination_port, udp_bytes, _ = _UDP.unpack_from(ip, header.header_bytes)
    if destination_port != port:
        return Skipped.OTHER_PORT
    udp_bytes = min(udp_bytes, header.datagram_bytes - header.header_bytes)
    if udp_bytes < _UDP.size:
        return Skipped.CUT
    return Datagram(
        ip=ip[: header.header_bytes + udp_bytes],
        header_bytes=header.header_bytes,
        payload_bytes=udp_bytes - _UDP.size,
        source=header.source,
        destination=header.destination,
        source_port=source_port,
        destination_port=destination_port,
        ip_id=header.ip_id,
        flags=header.flags,
        is_ce_marked=header.traffic_class & 3 == _CE,
    )


def _read_v4(ip: bytes) -> IpHeader | Skipped:
    if len(ip) < _V4.size:
        return Skipped.CUT
    first, tos, total, ip_id, flags, _, protocol, _, source, destination = _V4.unpack_from(ip)
    header_bytes = (first & 0xF) * 4
    if header_bytes < _V4.size:
        return Skipped.NOT_UDP
    return IpHeader(header_bytes, total, protocol, source, destination, ip_id, flags, tos)


def _read_v6(ip: bytes) -> IpHeader | Skipped:
    if len(ip) < _V6.size:
        return Skipped.CUT
    word, payload_bytes, protocol, _, source, destination = _V6.unpack_from(ip)
    if word >> 28 != 6:
        return Skipped.NOT_UDP
    header_bytes = _V6.size
    while protocol in _SKIPPED_V6_HEADERS and len(ip) >= header_bytes + 2:
        protocol, length = ip[header_bytes], (ip[header_bytes + 1] + 1) * 8
        header_bytes += length
    flags = 0
    if protocol == _V6_FRAGMENT and len(ip) >= header_bytes + 8:
        protocol, _, offset, _ = _V6_FRAGMENT_HEADER.unpack_from(ip, header_bytes)
        flags = _FRAGMENT if offset & _V6_FRAGMENT_BITS else 0
        header_bytes += 8
    traffic_class = word >> 20 & 0xFF
    return IpHeader(header_bytes, _V6.size + payload_bytes, protocol, source, destination, 0, flags, traffic_class)


LARGEST_PACKET = 4096 + 3 + BTH_BYTES + 28 + ICRC_BYTES
"""Largest UDP payload of one RoCEv2 packet: path MTU, padding, and all headers."""

_SHORTEST = BTH_BYTES + ICRC_BYTES
_SAME_IN_ALL = slice(2, 8)  # P_Key, flags and destination queue pair


def split(payload: bytes) -> list[bytes]:
    """The packets in the UDP payload of a super-frame; a single packet comes back as the only element."""
    pattern = payload[_SAME_IN_ALL]
    found = payload.find(pattern, _SHORTEST + 2)
    while found >= 0:
        length = found - 2
        if length % 4 == 0 and _splits_at(payload, length, pattern):
            return [payload[at : at + length] for at in range(0, len(payload), length)]
        found = payload.find(pattern, found + 1)
    return [payload]


def _splits_at(payload: bytes, length: int, pattern: bytes) -> bool:
    if 0 < len(payload) % length < _SHORTEST:
        return False
    return all(payload[at + 2 : at + 8] == pattern for at in range(length, len(payload), length))


def exceeds_one_packet(captured: bytes, udp_payload_bytes: int) -> bool:
    """Whether a truncated UDP payload is a super-frame.

    It is if it is longer than any packet, or begins with a FIRST or MIDDLE whose payload would not be a path MTU.

    Args:
        captured: its captured part, at least one byte.
        udp_payload_bytes: its whole length.
    """
    meaning = MEANINGS.get(captured[0])
    if udp_payload_bytes > LARGEST_PACKET:
        return True
    if meaning is None or meaning.place not in (PacketPlace.FIRST, PacketPlace.MIDDLE):
        return False
    return udp_payload_bytes - BTH_BYTES - meaning.extension_bytes - ICRC_BYTES not in PATH_MTUS


def is_segment_intact(datagram: Datagram, segment: bytes, *, index: int) -> bool:
    """Whether the ICRC of a packet in a super-frame is right on the wire, with any IP ID that the kernel gives it.

    Args:
        datagram: the super-frame.
        segment: the packet, from BTH to ICRC.
        index: of the packet in the super-frame.
    """
    path = UdpPath(
        datagram.source, datagram.destination, datagram.source_port, datagram.destination_port, datagram.flags
    )
    packet, stored = segment[:-ICRC_BYTES], int.from_bytes(segment[-ICRC_BYTES:], "little")
    if icrc(path, packet, ip_id=datagram.ip_id + index & 0xFFFF) == stored:
        return True
    return recover_ip_id(path, packet, stored) is not None
