"""Sorts captured frames into flows, and checks the rules that concern a single packet."""

from __future__ import annotations

from collections import Counter

from emulator.audit.datagram import Datagram, Skipped, read_datagram
from emulator.audit.flow import CapturedPacket, Flow, FlowKey
from emulator.audit.link import VXLAN_PORT, CapturedFrame, ip_offset, is_supported, mirrored_packet
from emulator.audit.rules import Rule, Violation
from emulator.audit.superframe import LARGEST_PACKET, exceeds_one_packet, is_segment_intact, split
from emulator.errors import InputError
from emulator.roce.constants import BTH_BYTES, ICRC_BYTES
from emulator.roce.headers import P_KEYS, Bth
from emulator.roce.icrc import icrc_of_datagram
from emulator.roce.opcodes import MEANINGS, Operation, Service
from emulator.roce.packet import Packet, Problem, decode_body, is_congestion_notification

MAX_FLOWS = 1_000_000
_SERVICE_BITS = 0xE0
_OTHER_FAMILIES = (0x40, 0xA0, 0xC0, 0xE0)  # reliable datagram, extended reliable connection, vendor-specific


class Collector:
    """Takes frames one by one; the result is in `flows`, `violations` and the counters."""

    def __init__(self, *, port: int) -> None:
        self._port = port
        self.flows: dict[FlowKey, Flow] = {}
        self.violations: list[Violation] = []
        self.frames = 0
        self.roce_frames = 0
        self.superframes = 0
        self.unreadable_superframes = self.truncated_superframes = 0
        self.truncated_frames = 0
        self.other_families: Counter[int] = Counter()
        self.fragments = 0
        self.encapsulated = 0
        self.unknown_links: Counter[int] = Counter()

    def add(self, frame: CapturedFrame) -> None:
        """Take the next frame, which can hold any bytes."""
        self.frames += 1
        if not is_supported(frame.link_type):
            self.unknown_links[frame.link_type] += 1
            return
        offset = ip_offset(frame.link_type, frame.data)
        ip = b"" if offset is None else frame.data[offset:]
        if self._port != VXLAN_PORT and (inner := mirrored_packet(ip)) is not None:
            self.encapsulated += 1
            ip = inner
        datagram = read_datagram(ip, port=self._port) if ip else Skipped.NOT_UDP
        if isinstance(datagram, Datagram):
            self._add_datagram(frame, datagram)
        elif datagram is Skipped.FRAGMENT:
            self.fragments += 1

    def _add_datagram(self, frame: CapturedFrame, datagram: Datagram) -> None:
        self.roce_frames += 1
        payload = datagram.payload
        if datagram.payload_bytes < BTH_BYTES + ICRC_BYTES:
            self._add_violation(frame, Rule.MALFORMED, flow="", problem=f"{datagram.payload_bytes} bytes: too short")
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
        else:
            self._add_packet(frame, datagram, payload, is_intact=False)

    def _add_truncated(self, frame: CapturedFrame, datagram: Datagram) -> None:
        """Take a truncated frame: its headers can be checked, its ICRC cannot."""
        self.truncated_frames += 1
        payload = datagram.payload
        if len(payload) < BTH_BYTES:
            self.unreadable_superframes += datagram.payload_bytes > LARGEST_PACKET
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
            self._add_violation(frame, Rule.ICRC, flow=flow.key.label, problem="an endpoint drops this frame silently")
        elif bth.version != 0:
            flow.unreadable.add(bth.psn)
            self._add_violation(frame, Rule.TRANSPORT_VERSION, flow=flow.key.label, problem=f"it is {bth.version}")
        else:
            self._decode(frame, flow, bth, payload)

    def _flow(self, datagram: Datagram, bth: Bth) -> Flow:
        key = FlowKey(datagram.source, datagram.destination, bth.dest_qp)
        flow = self.flows.get(key)
        if flow is None:
            if len(self.flows) == MAX_FLOWS:
                raise InputError(f"the capture has more than {MAX_FLOWS:,} flows: cut it, for example with editcap")
            flow = self.flows[key] = Flow(key, datagram.source_port)
        return flow

    def _decode(self, frame: CapturedFrame, flow: Flow, bth: Bth, payload: bytes) -> None:
        if bth.p_key not in P_KEYS:
            self._add_violation(frame, Rule.P_KEY, flow=flow.key.label, problem=f"it is {bth.p_key:#06x}")
        packet = decode_body(bth, payload)
        if packet is Problem.OPCODE and bth.opcode & _SERVICE_BITS in _OTHER_FAMILIES:
            self.other_families[bth.opcode] += 1
        elif isinstance(packet, Problem):
            flow.unreadable.add(bth.psn)
            self._add_violation(
                frame, Rule.MALFORMED, flow=flow.key.label, problem=f"opcode {bth.opcode:#04x}: {packet}"
            )
        else:
            self._keep(frame, flow, packet)

    def _keep(self, frame: CapturedFrame, flow: Flow, packet: Packet) -> None:
        meaning = packet.meaning
        captured = CapturedPacket.of(packet, frame=frame.number, time_ns=frame.time_ns)
        if meaning.operation is Operation.CNP:
            flow.notifications.append(captured)
            if not is_congestion_notification(packet):
                self._add_violation(frame, Rule.CNP_SHAPE, flow=flow.key.label, problem=_cnp_problem(packet))
        elif meaning.service is Service.UD:
            flow.datagrams.append(captured)
        elif meaning.operation.is_response:
            flow.responses.append(captured)
        else:
            flow.requests.append(captured)

    def _add_violation(self, frame: CapturedFrame, rule: Rule, *, flow: str, problem: str) -> None:
        self.violations.append(Violation(frame.number, rule, flow, problem))


def _cnp_problem(packet: Packet) -> str:
    if not packet.bth.becn:
        return "BECN is not set"
    if packet.bth.psn:
        return f"its PSN is {packet.bth.psn:#x}"
    if len(packet.payload) != 16:
        return f"{len(packet.payload)} bytes follow the BTH, not 16"
    return "the bytes after the BTH are not zero"
