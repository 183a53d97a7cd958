"""What an audit keeps of a captured packet."""

from __future__ import annotations

import ipaddress
from collections import Counter
from dataclasses import dataclass, field

from emulator.roce.headers import Aeth, Reth
from emulator.roce.opcodes import Meaning
from emulator.roce.packet import Packet
from emulator.roce.psn import Psn


@dataclass(frozen=True, slots=True)
class FlowKey:
    """Packets from one address to one queue pair at another."""

    source: bytes
    destination: bytes
    dest_qp: int

    @property
    def label(self) -> str:
        """For people: `10.0.0.1 > 10.0.0.2 QP 0x11`."""
        return f"{address(self.source)} > {address(self.destination)} QP {self.dest_qp:#x}"


def address(packed: bytes) -> str:
    """An address for people."""
    return str(ipaddress.ip_address(packed))


@dataclass(slots=True)
class Sighting:
    """One packet, seen once. Its ICRC was right, or could not be checked (a frame that was captured in part)."""

    frame: int
    time_ns: int | None
    opcode: int
    meaning: Meaning
    psn: Psn
    payload_bytes: int
    syndrome: int | None
    msn: int
    reth_bytes: int | None

    @property
    def signature(self) -> tuple[int, int, int | None]:
        """What a retransmission must repeat."""
        return self.opcode, self.payload_bytes, self.reth_bytes


def sight(packet: Packet, *, frame: int, time_ns: int | None) -> Sighting:
    """Keep what matters of a packet."""
    aeth = next((one for one in packet.extensions if isinstance(one, Aeth)), None)
    reth = next((one for one in packet.extensions if isinstance(one, Reth)), None)
    return Sighting(
        frame=frame,
        time_ns=time_ns,
        opcode=packet.bth.opcode,
        meaning=packet.meaning,
        psn=packet.bth.psn,
        payload_bytes=len(packet.payload),
        syndrome=None if aeth is None else aeth.syndrome,
        msn=0 if aeth is None else aeth.msn,
        reth_bytes=None if reth is None else reth.length,
    )


@dataclass(slots=True)
class Flow:
    """All packets of a flow in the order of the capture.

    `unread`: PSNs of damaged and cut ones; `torn`: super-frames captured in part, of whose packets nothing is known.
    """

    key: FlowKey
    source_port: int
    requests: list[Sighting] = field(default_factory=list)
    responses: list[Sighting] = field(default_factory=list)
    notifications: list[Sighting] = field(default_factory=list)
    datagrams: list[Sighting] = field(default_factory=list)
    unread: set[Psn] = field(default_factory=set)
    opcodes: Counter[int] = field(default_factory=Counter)
    icrc_good: int = 0
    icrc_bad: int = 0
    icrc_unchecked: int = 0
    torn: int = 0
    congested: int = 0
