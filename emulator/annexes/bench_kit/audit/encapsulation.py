"""Finds the UDP datagram in a captured frame, also inside the encapsulation of a mirroring switch or an overlay.

Sources: RFC 2784 and 2890 (GRE), draft-foschiano-erspan (ERSPAN), RFC 7348 (VXLAN), RFC 8926 (Geneve), RFC 3032 and
4385 (MPLS, pseudowires), RFC 2003 and 2473 (IP in IP).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import NamedTuple

from emulator.annexes.bench_kit.audit.datagram import Datagram, IpHeader, Skipped, read_datagram, read_header
from emulator.annexes.bench_kit.audit.pcap import ETHERNET, IP_TYPES, IPV4, IPV6, Content, content_of

_GRE_HEADER = struct.Struct(">HH")
_CHECKSUM, _ROUTING, _KEY, _SEQUENCE, _VERSION = 0x8000, 0x4000, 0x2000, 0x1000, 0x0007
_ERSPAN, _ERSPAN_III = 0x88BE, 0x22EB
_BRIDGED = 0x6558
_MPLS_TYPES = (0x8847, 0x8848)
_ROCE_V1 = 0x8915
_UNREAD_TYPES = {0x88E5: "MACsec", 0x8864: "PPPoE", 0x894F: "NSH"}
_IP_IN_IP, _GRE, _MPLS_IN_IP, _UDP = (4, 41), 47, 137, 17
_UNREAD_PROTOCOLS = {50: "ESP", 51: "AH"}
_VXLAN_PORTS, _GENEVE_PORT, _MPLS_PORT = (4789, 8472), 6081, 6635
_UNREAD_PORTS = {4500: "ESP", 4790: "VXLAN-GPE"}


class _Inside(NamedTuple):
    """What an encapsulation carries; `content` is None if the frame is cut before that."""

    name: str
    content: Content | None


class _Unread(NamedTuple):
    """An encapsulation that cannot be read."""

    name: str


@dataclass(slots=True)
class Opened:
    """What is in a frame.

    Attributes:
        found: the datagram, or the reason to ignore the frame.
        layers: encapsulations around it, the outermost first.
        ends: the addresses of each IP header, the outermost first.
        unread: the encapsulation that cannot be read; "" if `found` is not ENCAPSULATED.
    """

    found: Datagram | Skipped = Skipped.NOT_UDP
    layers: list[str] = field(default_factory=list)
    ends: list[frozenset[bytes]] = field(default_factory=list)
    unread: str = ""


def open_frame(link_type: int, data: bytes, *, port: int) -> Opened:
    """Find the UDP datagram in a frame. Never raises.

    Args:
        link_type: a supported one, see `is_supported`.
        data: the frame, which can hold any bytes.
        port: UDP destination port of the datagram.
    """
    opened = Opened()
    content = content_of(link_type, data)
    while content is not None:
        inside = _step(opened, content, data, port=port)
        if inside is None:
            return opened
        if isinstance(inside, _Unread):
            opened.found, opened.unread = Skipped.ENCAPSULATED, inside.name
            return opened
        opened.layers.append(inside.name)
        content = inside.content
    if opened.layers:
        opened.found = Skipped.CUT
    return opened


def _step(opened: Opened, content: Content, data: bytes, *, port: int) -> _Inside | _Unread | None:
    """Read one layer; None if it is the last, and `opened` has what was found."""
    ethertype, offset = content
    if ethertype not in IP_TYPES:
        if ethertype == _ROCE_V1:
            opened.found = Skipped.ROCE_V1
        return _behind_ethertype(ethertype, data, offset)
    ip = data[offset:]
    header = read_header(ip)
    if isinstance(header, Skipped):
        opened.found = header
        return None
    opened.ends.append(frozenset((header.source, header.destination)))
    inside = None if header.is_fragment else _behind_ip(header, data, offset, port=port)
    if inside is None:
        opened.found = read_datagram(ip, header, port=port)
    return inside


def _behind_ethertype(ethertype: int, data: bytes, offset: int) -> _Inside | _Unread | None:
    if ethertype in _MPLS_TYPES:
        return _mpls(data, offset)
    return _Unread(_UNREAD_TYPES[ethertype]) if ethertype in _UNREAD_TYPES else None


def _behind_ip(header: IpHeader, data: bytes, offset: int, *, port: int) -> _Inside | _Unread | None:
    offset += header.header_bytes
    protocol = header.protocol
    if protocol in _IP_IN_IP:
        return _Inside("IP in IP", (IPV4 if protocol == _IP_IN_IP[0] else IPV6, offset))
    if protocol == _GRE:
        return _gre(data, offset)
    if protocol == _MPLS_IN_IP:
        return _mpls(data, offset)
    if protocol == _UDP and len(data) >= offset + 8:
        destination = int.from_bytes(data[offset + 2 : offset + 4], "big")
        return None if destination == port else _behind_udp(destination, data, offset + 8)
    return _Unread(_UNREAD_PROTOCOLS[protocol]) if protocol in _UNREAD_PROTOCOLS else None


def _behind_udp(port: int, data: bytes, offset: int) -> _Inside | _Unread | None:
    if port in _VXLAN_PORTS:
        return _Inside("VXLAN", _ethernet(data, offset + 8))
    if port == _GENEVE_PORT:
        return _geneve(data, offset)
    if port == _MPLS_PORT:
        return _mpls(data, offset)
    return _Unread(_UNREAD_PORTS[port]) if port in _UNREAD_PORTS else None


def _ethernet(data: bytes, offset: int) -> Content | None:
    inner = content_of(ETHERNET, data[offset:])
    return None if inner is None else (inner[0], offset + inner[1])


def _geneve(data: bytes, offset: int) -> _Inside | _Unread:
    if len(data) < offset + 8:
        return _Inside("Geneve", None)
    ethertype = int.from_bytes(data[offset + 2 : offset + 4], "big")
    return _of_type("Geneve", ethertype, data, offset + 8 + (data[offset] & 0x3F) * 4)


def _gre(data: bytes, offset: int) -> _Inside | _Unread:
    if len(data) < offset + _GRE_HEADER.size:
        return _Inside("GRE", None)
    flags, ethertype = _GRE_HEADER.unpack_from(data, offset)
    if flags & (_ROUTING | _VERSION):
        return _Unread(f"GRE with flags {flags:#06x}")
    offset += _GRE_HEADER.size + 4 * sum(bool(flags & flag) for flag in (_CHECKSUM, _KEY, _SEQUENCE))
    if ethertype == _ERSPAN:
        is_second = bool(flags & _SEQUENCE)  # type I has neither a sequence number nor a header of its own
        return _Inside("ERSPAN II" if is_second else "ERSPAN I", _ethernet(data, offset + 8 * is_second))
    if ethertype == _ERSPAN_III:
        return _erspan_iii(data, offset)
    return _of_type("GRE", ethertype, data, offset)


def _erspan_iii(data: bytes, offset: int) -> _Inside | _Unread:
    if len(data) < offset + 12:
        return _Inside("ERSPAN III", None)
    word = int.from_bytes(data[offset + 10 : offset + 12], "big")
    kind, has_subheader = word >> 10 & 0x1F, word & 1
    offset += 12 + 8 * has_subheader
    if kind == 0:
        return _Inside("ERSPAN III", _ethernet(data, offset))
    return _Inside("ERSPAN III", _ip(data, offset)) if kind == 2 else _Unread(f"ERSPAN III with frame type {kind}")


def _of_type(name: str, ethertype: int, data: bytes, offset: int) -> _Inside | _Unread:
    """What follows a header that names an EtherType."""
    if ethertype == _BRIDGED:
        return _Inside(name, _ethernet(data, offset))
    if ethertype in IP_TYPES or ethertype in _MPLS_TYPES:
        return _Inside(name, (ethertype, offset))
    return _Unread(f"{name} with protocol {ethertype:#06x}")


def _ip(data: bytes, offset: int) -> Content | None:
    version = data[offset] >> 4 if len(data) > offset else 0
    return {4: (IPV4, offset), 6: (IPV6, offset)}.get(version)


def _mpls(data: bytes, offset: int) -> _Inside | _Unread:
    """MPLS does not say what follows the labels: IP by its version, else a pseudowire with Ethernet."""
    while len(data) > offset + 4 and not data[offset + 2] & 1:
        offset += 4
    offset += 4
    if len(data) <= offset:
        return _Inside("MPLS", None)
    if (content := _ip(data, offset)) is not None:
        return _Inside("MPLS", content)
    for start in (offset + 4, offset) if data[offset] >> 4 == 0 else (offset,):  # with a control word, or without
        if (content := _ethernet(data, start)) is not None and content[0] in IP_TYPES:
            return _Inside("MPLS", content)
    return _Unread("MPLS")
