"""Sorts captured frames into flows, and checks the rules that concern a single packet.

The UDP datagram is found also inside the encapsulation of a mirroring switch or an overlay.

Sources: RFC 2784 and 2890 (GRE), draft-foschiano-erspan (ERSPAN), RFC 7348 (VXLAN), RFC 8926 (Geneve), RFC 3032 and
4385 (MPLS, pseudowires), RFC 2003 and 2473 (IP in IP).
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from emulator.annexes.bench_kit.audit.datagram import (
    LARGEST_PACKET,
    Datagram,
    IpHeader,
    Skipped,
    exceeds_one_packet,
    is_segment_intact,
    read_datagram,
    read_header,
    split,
)
from emulator.annexes.bench_kit.audit.flow import CapturedFlow, CapturedFlowKey, CapturedPacket, FrameRule, Violation
from emulator.annexes.bench_kit.audit.pcap import (
    ETHERNET,
    IP_TYPES,
    IPV4,
    IPV6,
    CapturedFrame,
    Content,
    content_of,
    is_supported,
)
from emulator.errors import InputError
from emulator.roce.constants import BTH_BYTES, ICRC_BYTES
from emulator.roce.wire.headers import P_KEYS, Bth
from emulator.roce.wire.icrc import icrc_of_datagram
from emulator.roce.wire.opcodes import MEANINGS, PacketOperation, TransportService
from emulator.roce.wire.packet import Packet, Problem, decode_body, is_congestion_notification

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


MAX_FLOWS = 1_000_000
_SERVICE_BITS = 0xE0
_OTHER_FAMILIES = (0x40, 0xA0, 0xC0, 0xE0)  # reliable datagram, extended reliable connection, vendor-specific


class Collector:
    """Takes frames one by one; the result is in `flows`, `violations` and the counters.

    Attributes:
        encapsulated: RoCEv2 frames by the encapsulation they were read through.
        unread: frames by the encapsulation that could not be read.
        cut: frames captured in part, without the first header of RoCEv2.
    """

    def __init__(self, *, port: int) -> None:
        self._port = port
        self.flows: dict[CapturedFlowKey, CapturedFlow] = {}
        self.violations: list[Violation] = []
        self.frames = 0
        self.roce_frames = 0
        self.superframes = 0
        self.unreadable_superframes = self.truncated_superframes = 0
        self.truncated_frames = 0
        self.other_families: Counter[int] = Counter()
        self.encapsulated: Counter[str] = Counter()
        self.unread: Counter[str] = Counter()
        self.fragments = self.cut = self.roce_v1 = 0
        self.unknown_links: Counter[int] = Counter()
        self._is_anything_unread = False  # frames that can belong to any flow
        self._unread_between: set[frozenset[bytes]] = set()  # ends of frames that can belong to any flow of these

    def add(self, frame: CapturedFrame) -> None:
        """Take the next frame, which can hold any bytes."""
        self.frames += 1
        if not is_supported(frame.link_type):
            self.unknown_links[frame.link_type] += 1
            self._is_anything_unread = True
            return
        opened = open_frame(frame.link_type, frame.data, port=self._port)
        if isinstance(opened.found, Datagram):
            self._add_datagram(frame, opened.found, opened)
        elif opened.found is Skipped.ROCE_V1:
            self.roce_v1 += 1
        elif opened.found in (Skipped.FRAGMENT, Skipped.CUT, Skipped.ENCAPSULATED):
            self._add_unread(opened)

    def has_unread(self, flow: CapturedFlow) -> bool:
        """Whether frames that could not be read can have packets of a flow, or of the responses to it."""
        return self._is_anything_unread or not self._unread_between.isdisjoint(flow.ends)

    def _add_unread(self, opened: Opened) -> None:
        self.fragments += opened.found is Skipped.FRAGMENT
        self.cut += opened.found is Skipped.CUT
        if opened.found is Skipped.ENCAPSULATED:
            self.unread[opened.unread] += 1
        if opened.found is Skipped.ENCAPSULATED or not opened.ends:
            self._is_anything_unread = True
        else:
            self._unread_between.add(opened.ends[-1])

    def _add_datagram(self, frame: CapturedFrame, datagram: Datagram, opened: Opened) -> None:
        self.roce_frames += 1
        if opened.layers:
            self.encapsulated[" in ".join(reversed(opened.layers))] += 1
            datagram.ends = opened.ends
        payload = datagram.payload
        if datagram.payload_bytes < BTH_BYTES + ICRC_BYTES:
            self._add_violation(
                frame, FrameRule.MALFORMED, flow="", problem=f"{datagram.payload_bytes} bytes: too short"
            )
        elif not datagram.is_whole:
            self._add_truncated(frame, datagram)
        elif int.from_bytes(payload[-ICRC_BYTES:], "little") == icrc_of_datagram(datagram.ip, datagram.header_bytes):
            self._add_packet(frame, datagram, payload, is_intact=True)
        else:
            self._add_unproven(frame, datagram, payload)

    def _add_unproven(self, frame: CapturedFrame, datagram: Datagram, payload: bytes) -> None:
        """Take a datagram whose ICRC is wrong: a super-frame, or a damaged packet."""
        segments = split(payload)
        if len(segments) > 1:
            self.superframes += 1
            for index, segment in enumerate(segments):
                is_intact = is_segment_intact(datagram, segment, index=index)
                self._add_packet(frame, datagram, segment, is_intact=is_intact)
        elif datagram.payload_bytes > LARGEST_PACKET:
            self.unreadable_superframes += 1
            self._unread_between.add(frozenset((datagram.source, datagram.destination)))
        else:
            self._add_packet(frame, datagram, payload, is_intact=False)

    def _add_truncated(self, frame: CapturedFrame, datagram: Datagram) -> None:
        """Take a truncated frame: its headers can be checked, its ICRC cannot."""
        self.truncated_frames += 1
        payload = datagram.payload
        if len(payload) < BTH_BYTES:
            self.unreadable_superframes += datagram.payload_bytes > LARGEST_PACKET
            self._unread_between.add(frozenset((datagram.source, datagram.destination)))
        elif exceeds_one_packet(payload, datagram.payload_bytes):
            self.truncated_superframes += 1
            self._flow(datagram, Bth.unpack(payload)).truncated_superframes += 1
        else:
            self._add_headers(frame, datagram, payload)

    def _add_headers(self, frame: CapturedFrame, datagram: Datagram, payload: bytes) -> None:
        meaning = MEANINGS.get(payload[0])
        needed = BTH_BYTES + (meaning.extension_bytes if meaning else 0)
        if len(payload) >= min(needed, datagram.payload_bytes):
            self._add_packet(frame, datagram, payload.ljust(datagram.payload_bytes, b"\0"), is_intact=None)
        else:
            bth = Bth.unpack(payload)
            flow = self._flow(datagram, bth)
            flow.opcodes[bth.opcode] += 1
            flow.icrc_unchecked += 1
            flow.unreadable.add(bth.psn)

    def _add_packet(self, frame: CapturedFrame, datagram: Datagram, payload: bytes, *, is_intact: bool | None) -> None:
        bth = Bth.unpack(payload)
        flow = self._flow(datagram, bth)
        flow.opcodes[bth.opcode] += 1
        flow.ce_marked += datagram.is_ce_marked
        flow.icrc_good += is_intact is True
        flow.icrc_unchecked += is_intact is None
        if is_intact is False:
            flow.icrc_bad += 1
            flow.unreadable.add(bth.psn)
            self._add_violation(
                frame, FrameRule.ICRC, flow=flow.key.label, problem="an endpoint drops this frame silently"
            )
        elif bth.version != 0:
            flow.unreadable.add(bth.psn)
            self._add_violation(frame, FrameRule.TRANSPORT_VERSION, flow=flow.key.label, problem=f"it is {bth.version}")
        else:
            self._decode(frame, datagram, flow, bth, payload)

    def _flow(self, datagram: Datagram, bth: Bth) -> CapturedFlow:
        key = CapturedFlowKey(datagram.source, datagram.destination, bth.dest_qp)
        flow = self.flows.get(key)
        if flow is None:
            if len(self.flows) == MAX_FLOWS:
                raise InputError(f"the capture has more than {MAX_FLOWS:,} flows: cut it, for example with editcap")
            flow = self.flows[key] = CapturedFlow(key, datagram.source_port, {frozenset((key.source, key.destination))})
        flow.ends.update(datagram.ends)
        return flow

    def _decode(self, frame: CapturedFrame, datagram: Datagram, flow: CapturedFlow, bth: Bth, payload: bytes) -> None:
        if bth.p_key not in P_KEYS:
            self._add_violation(frame, FrameRule.P_KEY, flow=flow.key.label, problem=f"it is {bth.p_key:#06x}")
        packet = decode_body(bth, payload)
        if packet is Problem.OPCODE and bth.opcode & _SERVICE_BITS in _OTHER_FAMILIES:
            self.other_families[bth.opcode] += 1
        elif isinstance(packet, Problem):
            flow.unreadable.add(bth.psn)
            self._add_violation(
                frame, FrameRule.MALFORMED, flow=flow.key.label, problem=f"opcode {bth.opcode:#04x}: {packet}"
            )
        else:
            self._keep(frame, datagram.source_port, flow, packet)

    def _keep(self, frame: CapturedFrame, source_port: int, flow: CapturedFlow, packet: Packet) -> None:
        meaning = packet.meaning
        captured = CapturedPacket.of(packet, frame=frame.number, time_ns=frame.time_ns, source_port=source_port)
        if meaning.operation is PacketOperation.CNP:
            flow.notifications.append(captured)
            if not is_congestion_notification(packet):
                self._add_violation(frame, FrameRule.CNP_SHAPE, flow=flow.key.label, problem=_cnp_problem(packet))
        elif meaning.service is TransportService.UD:
            flow.datagrams.append(captured)
        elif meaning.operation.is_response:
            flow.responses.append(captured)
        else:
            flow.requests.append(captured)

    def _add_violation(self, frame: CapturedFrame, rule: FrameRule, *, flow: str, problem: str) -> None:
        self.violations.append(Violation(frame.number, rule, flow, problem))


def _cnp_problem(packet: Packet) -> str:
    if not packet.bth.becn:
        return "BECN is not set"
    if packet.bth.psn:
        return f"its PSN is {packet.bth.psn:#x}"
    if len(packet.payload) != 16:
        return f"{len(packet.payload)} bytes follow the BTH, not 16"
    return "the bytes after the BTH are not zero"
