"""Flows of captured packets, which the audit keeps of a capture, the rules for them, and violations of the rules."""

from __future__ import annotations

import ipaddress
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

from emulator.roce.wire.headers import Aeth, Reth
from emulator.roce.wire.opcodes import OpcodeMeaning
from emulator.roce.wire.packet import Packet
from emulator.roce.wire.psn import Psn


class FrameRule(Enum):
    """A requirement on captured frames. Losses, NAKs and retransmissions violate no rule: they are counted."""

    def __init__(self, title: str, meaning: str) -> None:
        self.title = title
        self.meaning = meaning

    ICRC = ("icrc", "the invariant CRC is right")
    TRANSPORT_VERSION = ("transport-version", "the transport version is 0")
    P_KEY = ("p-key", "the P_Key is the default partition's, 0xffff or 0x7fff")
    MALFORMED = (
        "malformed",
        "the packet has the headers of its opcode, the right padding, and payload only if the opcode allows it",
    )
    CNP_SHAPE = ("cnp-shape", "a congestion notification has BECN set, PSN 0 and sixteen zero bytes")
    OPCODE_SEQUENCE = ("opcode-sequence", "messages are FIRST MIDDLE* LAST, or ONLY, of one operation")
    PATH_MTU = ("path-mtu", "FIRST and MIDDLE are exactly one path MTU, LAST 1 byte to one path MTU, ONLY at most one")
    MESSAGE_LENGTH = ("message-length", "the RETH's length is the payload of the message")
    PACKET_ORDER = (
        "packet-order",
        "packets of a flow with the same UDP source port arrive in the order in which they were sent",
    )
    PSN_CONTINUITY = ("psn-continuity", "every acknowledged PSN was sent")
    ACK_UNSENT = ("ack-unsent", "an acknowledgement names a PSN that was sent before")
    NAK_EXPECTED = ("nak-expected", "a sequence-error NAK names the first PSN that did not arrive")
    GO_BACK_N = ("go-back-n", "a retransmission starts at the oldest unacknowledged PSN and continues from there")
    RETRANSMISSION = (
        "retransmission",
        "a repeated PSN carries the same opcode and length as before; a repeated READ asks for the bytes of its PSN",
    )
    RESPONSE = (
        "response",
        "a READ response has the PSN of a READ, an atomic acknowledgement that of an atomic operation",
    )
    MSN = ("msn", "the message sequence number of acknowledgements never decreases")


NEED_EVERY_FRAME = frozenset(
    {
        FrameRule.PACKET_ORDER,
        FrameRule.PSN_CONTINUITY,
        FrameRule.ACK_UNSENT,
        FrameRule.NAK_EXPECTED,
        FrameRule.GO_BACK_N,
    }
)
"""Rules that a packet seems to break if the one before it is in a frame that could not be read."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a frame violates.

    Attributes:
        frame: its number from 1, as in packet analysers.
        flow: label of the flow; "" if the frame has none.
    """

    frame: int
    rule: FrameRule
    flow: str
    problem: str


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
