"""Sorts captured frames into flows, and checks the rules that concern a single packet."""

from __future__ import annotations

from collections import Counter

from emulator.annexes.bench_kit.audit.datagram import (
    LARGEST_PACKET,
    Datagram,
    Skipped,
    exceeds_one_packet,
    is_segment_intact,
    split,
)
from emulator.annexes.bench_kit.audit.encapsulation import Opened, open_frame
from emulator.annexes.bench_kit.audit.flow import CapturedFlow, CapturedFlowKey, CapturedPacket, FrameRule, Violation
from emulator.annexes.bench_kit.audit.pcap import CapturedFrame, is_supported
from emulator.errors import InputError
from emulator.roce.constants import BTH_BYTES, ICRC_BYTES
from emulator.roce.wire.headers import P_KEYS, Bth
from emulator.roce.wire.icrc import icrc_of_datagram
from emulator.roce.wire.opcodes import MEANINGS, PacketOperation, TransportService
from emulator.roce.wire.packet import Packet, Problem, decode_body, is_congestion_notification

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
