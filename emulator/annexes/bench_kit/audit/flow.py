"""Flows of captured packets: what the audit keeps of a capture."""

from __future__ import annotations

import ipaddress
from collections import Counter
from dataclasses import dataclass, field

from emulator.roce.wire.headers import Aeth, Reth
from emulator.roce.wire.opcodes import OpcodeMeaning
from emulator.roce.wire.packet import Packet
from emulator.roce.wire.psn import Psn


@dataclass(frozen=True, slots=True)
class CapturedFlowKey:
    """The packets from one address to one queue pair of another address."""

    source: bytes
    destination: bytes
    dest_qp: int

    @property
    def label(self) -> str:
        """The flow in messages: `10.0.0.1 > 10.0.0.2 QP 0x11`."""
        return f"{address(self.source)} > {address(self.destination)} QP {self.dest_qp:#x}"


def address(packed: bytes) -> str:
    """A packed IPv4 or IPv6 address as text."""
    return str(ipaddress.ip_address(packed))


@dataclass(slots=True)
class CapturedPacket:
    """The facts of one captured packet whose ICRC is right, or could not be checked because the frame is truncated.

    Attributes:
        frame: number of the frame in the capture, from 1.
        time_ns: since the epoch; None if the capture has no times.
        syndrome: of the AETH; None if there is none.
        msn: message sequence number of the AETH; 0 if there is none.
        reth_bytes, reth_address: length and address in the RETH; None if there is none.
        source_port: of UDP.
    """

    frame: int
    time_ns: int | None
    opcode: int
    meaning: OpcodeMeaning
    psn: Psn
    payload_bytes: int
    syndrome: int | None
    msn: int
    reth_bytes: int | None
    reth_address: int | None = None
    source_port: int = 0

    @property
    def signature(self) -> tuple[int, int, int | None]:
        """Opcode and lengths, which a retransmission must repeat."""
        return self.opcode, self.payload_bytes, self.reth_bytes

    @classmethod
    def of(cls, packet: Packet, *, frame: int, time_ns: int | None, source_port: int) -> CapturedPacket:
        """The facts of a decoded packet."""
        aeth = next((one for one in packet.extensions if isinstance(one, Aeth)), None)
        reth = next((one for one in packet.extensions if isinstance(one, Reth)), None)
        return cls(
            frame=frame,
            time_ns=time_ns,
            opcode=packet.bth.opcode,
            meaning=packet.meaning,
            psn=packet.bth.psn,
            payload_bytes=len(packet.payload),
            syndrome=None if aeth is None else aeth.syndrome,
            msn=0 if aeth is None else aeth.msn,
            reth_bytes=None if reth is None else reth.length,
            reth_address=None if reth is None else reth.address,
            source_port=source_port,
        )


@dataclass(slots=True)
class CapturedFlow:
    """All packets of a flow in the order of the capture.

    Attributes:
        source_port: UDP source port of the first packet.
        ends: both addresses; and those of each encapsulation around its packets.
        unreadable: PSNs of damaged packets, and of packets whose headers are truncated.
        truncated_superframes: super-frames captured in part; nothing is known of the packets in them.
        ce_marked: packets that a switch marked Congestion Experienced.
    """

    key: CapturedFlowKey
    source_port: int
    ends: set[frozenset[bytes]] = field(default_factory=set)
    requests: list[CapturedPacket] = field(default_factory=list)
    responses: list[CapturedPacket] = field(default_factory=list)
    notifications: list[CapturedPacket] = field(default_factory=list)
    datagrams: list[CapturedPacket] = field(default_factory=list)
    unreadable: set[Psn] = field(default_factory=set)
    opcodes: Counter[int] = field(default_factory=Counter)
    icrc_good: int = 0
    icrc_bad: int = 0
    icrc_unchecked: int = 0
    truncated_superframes: int = 0
    ce_marked: int = 0
