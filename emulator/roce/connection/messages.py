"""What crosses a reliable connection: messages, and runs of their packets.

A message is cut at the path MTU into FIRST, MIDDLE …, LAST, or is one ONLY packet. A run is packets with consecutive
PSNs, of one message where it is sent; where it is received, packets of one opcode and one length.

These are structs of msgspec: one is made for every small packet, in a quarter of the time of a named tuple.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import msgspec

from emulator.roce.wire.opcodes import PacketOperation
from emulator.roce.wire.psn import Psn

LEAST_REACH_PACKETS = 1 << 16
"""More than any endpoint has in flight: a 256th of all PSNs."""


class Verb(Enum):
    """What a requester does; the value: (operation, whether immediate data comes with the end)."""

    SEND = (PacketOperation.SEND, False)
    SEND_IMM = (PacketOperation.SEND, True)
    WRITE = (PacketOperation.WRITE, False)
    WRITE_IMM = (PacketOperation.WRITE, True)
    READ = (PacketOperation.READ_REQUEST, False)


class FirstSent:
    """When the first packet of a transfer left.

    Attributes:
        asked_ns: when it was handed to the kernel, on CLOCK_MONOTONIC; 0: not yet.
        at_ns: when the kernel handed it to the driver, on the same clock; 0: not known, or not yet.
    """

    __slots__ = ("asked_ns", "at_ns")

    def __init__(self) -> None:
        self.asked_ns = self.at_ns = 0


class Message(msgspec.Struct, eq=False, gc=False):
    """A work request.

    Attributes:
        verb: what to do with the bytes.
        size: payload, bytes.
        address, rkey: where at the peer, for WRITE and READ.
        imm: immediate data, where the verb has it.
        key: for the use of the poster; 0 by default.
        content: its last bytes, from the start of a packet on; those before are as the queue pair's payload has them.
        packets: how many PSNs it takes; of a READ, those of its responses.
        first: number of its first packet on the connection, counted from 0 without wrapping.
        taken: of a READ: response packets received.
        sent: learns when the first packet leaves; None: nobody asks, or it has left.
    """

    verb: Verb
    size: int
    address: int = 0
    imm: int = 0
    rkey: int = 0
    key: int = 0
    packets: int = 1
    first: int = 0
    taken: int = 0
    content: bytes = b""
    sent: FirstSent | None = None


class PacketRun(msgspec.Struct, frozen=True, gc=False):
    """Packets of one message to be sent now.

    Attributes:
        offset: packets of the message before these.
        packets: packets on the wire; a READ request is one.
        ack_request: on the last of them.
        is_again: at least one has been sent before.
    """

    message: Message
    psn: Psn
    offset: int
    packets: int
    ack_request: bool
    is_again: bool

    @property
    def ends_message(self) -> bool:
        """Whether the message's last packet is the run's."""
        return self.offset + self.packets == self.message.packets


class ResponseRun(msgspec.Struct, frozen=True, gc=False):
    """READ responses to be sent now: `packets` of `total` from `offset`.

    Attributes:
        last_bytes: payload of the last packet of this run.
        content: payload of all packets of the run; None: as the payload of the queue pair has it.
    """

    psn: Psn
    offset: int
    packets: int
    total: int
    last_bytes: int
    msn: int
    content: bytes | None = None


class AtomicResponse(msgspec.Struct, frozen=True, gc=False):
    """The response to an atomic, to be sent now; `original`: the word before."""

    psn: Psn
    original: int
    msn: int


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """Packets that came: `packets` of one opcode with consecutive PSNs, MIDDLE ones, or ONLY ones that are all alike.

    Attributes:
        size: payload of each, bytes, without pad.
        ack_request: on any of them.
        address, rkey, length: from the RETH, where the opcode has one.
        imm: from the ImmDt, where the opcode has one.
        swap_or_add, compare: from the AtomicETH, where the opcode has one.
    """

    opcode: int
    psn: Psn
    packets: int = 1
    size: int = 0
    ack_request: bool = False
    address: int = 0
    rkey: int = 0
    length: int = 0
    imm: int = 0
    swap_or_add: int = 0
    compare: int = 0


class Delivered(msgspec.Struct, frozen=True, gc=False):
    """A message that is complete at the responder, or several `messages` that are all alike.

    `imm` is None where none came; `address` is 0 for a SEND.
    """

    operation: PacketOperation
    address: int
    size: int
    imm: int | None
    messages: int = 1


class Reply(msgspec.Struct, frozen=True, gc=False):
    """An ACK or NAK to be sent."""

    psn: Psn
    syndrome: int
    msn: int


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """What both ends of a reliable connection agree on, and how patient they are.

    Attributes:
        path_mtu: payload of a full packet, bytes; one of PATH_MTUS.
        window_packets: packets that may be in flight without an acknowledgement.
        ack_interval: packets between two requests for an acknowledgement inside a message.
        smallest_run: least packets of a run, unless it ends a message or nothing is in flight.
        timeout_exponent: t of 4.096 µs · 2^t, without an answer, until everything is sent again.
        retry_count: how often in a row that happens before the peer is given up.
        rnr_retry_count: the same for a receiver that is not ready; 7 means for ever.
        is_ooo: the receiver takes packets that come too early, as adaptive-routing NICs do; else go-back-N.
        ooo_window: how many packets ahead such a receiver accepts.
        max_rd_atomic: READs and atomics that a requester has outstanding at most.
        initial_window_packets: the window at first, if it is to learn what the peer takes; 0: all of it.
        rnr_timer: code of the pause that a responder without a posted receive requests (IBTA volume 1, table 45).
    """

    path_mtu: int = 4096
    window_packets: int = 256
    ack_interval: int = 128
    smallest_run: int = 1
    timeout_exponent: int = 14
    retry_count: int = 7
    rnr_retry_count: int = 7
    is_ooo: bool = False
    ooo_window: int = 256
    max_rd_atomic: int = 16
    initial_window_packets: int = 0
    rnr_timer: int = 12

    @property
    def timeout_ns(self) -> int:
        """The shortest time without an answer, ns. Source: IBTA volume 1, section 9.7.6.1.3."""
        return 4096 << self.timeout_exponent

    @property
    def reach_packets(self) -> int:
        """How far a PSN of the peer can be from the next one; a packet farther away is not the peer's."""
        return max(LEAST_REACH_PACKETS, 2 * self.window_packets)


def packets_of(size: int, path_mtu: int) -> int:
    """Packets that `size` bytes make: at least one."""
    return -(-size // path_mtu) or 1
