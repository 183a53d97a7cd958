"""Reassembles the messages of a flow in PSN order, and checks the rules about their packets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from emulator.annexes.bench_kit.audit.flow import CapturedPacket
from emulator.annexes.bench_kit.audit.rules import FrameRule, Violation
from emulator.roce.constants import PATH_MTUS
from emulator.roce.wire.opcodes import PacketOperation, PacketPlace


@dataclass(slots=True)
class SentPacket:
    """A packet and the number of PSNs it takes: 1, or for a READ request one per packet of the response."""

    packet: CapturedPacket
    psns: int = 1


@dataclass(slots=True)
class Messages:
    """The messages of a flow.

    Attributes:
        sizes: complete messages by their length in bytes.
        partial: messages whose beginning is not in the capture.
    """

    sizes: Counter[int] = field(default_factory=Counter)
    partial: int = 0
    violations: list[Violation] = field(default_factory=list)


def path_mtu(packets: Iterable[CapturedPacket]) -> int | None:
    """The path MTU of a flow: the most frequent valid length of its FIRST and MIDDLE packets; None without any."""
    lengths = Counter(
        one.payload_bytes
        for one in packets
        if one.meaning.place in (PacketPlace.FIRST, PacketPlace.MIDDLE) and one.payload_bytes in PATH_MTUS
    )
    return max(lengths, key=lambda length: (lengths[length], length)) if lengths else None


def assemble(sent: Mapping[int, SentPacket], *, mtu: int | None, flow: str) -> Messages:
    """Reassemble the messages of a flow.

    Args:
        sent: packets by unwrapped PSN, first transmissions only.
        mtu: the path MTU; None if unknown.
        flow: its label, for violations.
    """
    assembler = _Assembler(mtu, flow)
    for psn in sorted(sent):
        assembler.take(psn, sent[psn])
    return assembler.messages


class _Assembler:
    def __init__(self, mtu: int | None, flow: str) -> None:
        self._mtu, self._flow = mtu, flow
        self.messages = Messages()
        self._next_psn: int | None = None
        self._last: CapturedPacket | None = None
        self._bytes: int | None = None  # of the message so far; None if its beginning is not in the capture
        self._reth_bytes: int | None = None

    def take(self, psn: int, sent: SentPacket) -> None:
        packet = sent.packet
        previous = self._last if psn == self._next_psn else None
        self._check_length(packet)
        if previous is not None:
            self._check_sequence(previous, packet)
        self._add(previous, packet)
        self._next_psn, self._last = psn + sent.psns, packet

    def _add_violation(self, packet: CapturedPacket, rule: FrameRule, problem: str) -> None:
        self.messages.violations.append(Violation(packet.frame, rule, self._flow, problem))

    def _check_length(self, packet: CapturedPacket) -> None:
        place, length = packet.meaning.place, packet.payload_bytes
        if not packet.meaning.carries_payload:
            return
        most = self._mtu or PATH_MTUS[-1]
        if place in (PacketPlace.FIRST, PacketPlace.MIDDLE) and length != self._mtu:
            expected = f"the path MTU is {self._mtu}" if self._mtu else "which is not a path MTU"
            self._add_violation(packet, FrameRule.PATH_MTU, f"{place.name} has {length} bytes, {expected}")
        elif length > most:
            self._add_violation(packet, FrameRule.PATH_MTU, f"{place.name} has {length} bytes, more than {most}")
        elif place is PacketPlace.LAST and length == 0:
            self._add_violation(packet, FrameRule.PATH_MTU, "LAST has no payload")

    def _check_sequence(self, previous: CapturedPacket, packet: CapturedPacket) -> None:
        before, now = previous.meaning, packet.meaning
        if before.place.ends and not now.place.starts:
            self._add_violation(packet, FrameRule.OPCODE_SEQUENCE, f"{_name(packet)} after {_name(previous)}: no FIRST")
        elif not before.place.ends and now.place.starts:
            self._add_violation(packet, FrameRule.OPCODE_SEQUENCE, f"{_name(packet)} after {_name(previous)}: no LAST")
        elif not now.place.starts and before.operation is not now.operation:
            self._add_violation(packet, FrameRule.OPCODE_SEQUENCE, f"{_name(packet)} after {_name(previous)}")

    def _add(self, previous: CapturedPacket | None, packet: CapturedPacket) -> None:
        place = packet.meaning.place
        if place.starts:
            self._bytes, self._reth_bytes = packet.payload_bytes, packet.reth_bytes
        elif previous is None or previous.meaning.place.ends:
            self._bytes = self._reth_bytes = None
        elif self._bytes is not None:
            self._bytes += packet.payload_bytes
        if place.ends:
            self._close(packet)

    def _close(self, packet: CapturedPacket) -> None:
        if packet.meaning.operation is PacketOperation.READ_REQUEST:
            self.messages.sizes[packet.reth_bytes or 0] += 1
        elif self._bytes is None:
            self.messages.partial += 1
        else:
            self.messages.sizes[self._bytes] += 1
            if self._reth_bytes is not None and self._reth_bytes != self._bytes:
                problem = f"the RETH announced {self._reth_bytes} bytes, the packets carried {self._bytes}"
                self._add_violation(packet, FrameRule.MESSAGE_LENGTH, problem)


def _name(packet: CapturedPacket) -> str:
    meaning = packet.meaning
    return f"{meaning.operation.name.replace('_', ' ')} {meaning.place.name}"
