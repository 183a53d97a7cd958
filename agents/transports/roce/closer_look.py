"""A closer look at what a channel cannot take on sight: packet by packet, with a reason for what is not wanted."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agents.transports.roce.shared import Shared
from agents.transports.roce.verification import Verification
from emulator.roce.headers import P_KEYS
from emulator.roce.messages import Arrival, Delivered
from emulator.roce.opcodes import MEANINGS, Opcode, Operation, Service
from emulator.roce.packet import CNP_PAYLOAD
from emulator.roce.psn import Psn, distance
from emulator.roce.runs import ACK_REQUEST, BTH, Prediction, without_ack_requests

if TYPE_CHECKING:
    from agents.transports.roce.channel import Channel

_RETH = struct.Struct(">QII")
_RETH_IMM = struct.Struct(">QIII")
_IMM = struct.Struct(">I")
_AETH = struct.Struct(">I")
_HEADER_BYTES = {
    code: 12 + meaning.extension_bytes for code, meaning in MEANINGS.items() if meaning.service is Service.RC
}
_RETH_CODES = frozenset((Opcode.RC_WRITE_FIRST, Opcode.RC_WRITE_ONLY, Opcode.RC_READ_REQUEST))
_IMM_CODES = frozenset((Opcode.RC_SEND_LAST_IMM, Opcode.RC_SEND_ONLY_IMM, Opcode.RC_WRITE_LAST_IMM))
_WRITES = frozenset(code for code, meaning in MEANINGS.items() if code < 0x20 and meaning.operation is Operation.WRITE)
_BECN = 1 << 30  # in the word with the queue pair's number
_NO_PAYLOAD = frozenset((Opcode.RC_READ_REQUEST, Opcode.RC_ACK))
_REFUSED = frozenset(
    code for code, meaning in MEANINGS.items() if meaning.operation in (Operation.ATOMIC, Operation.ATOMIC_ACK)
) | {Opcode.RC_SEND_LAST_INVALIDATE, Opcode.RC_SEND_ONLY_INVALIDATE}


class CloserLook:
    """Takes packets of one queue pair from the buffer that all share, whatever they are."""

    __slots__ = ("_channel", "_elsewhere", "_shared", "_verification")

    def __init__(self, channel: Channel, shared: Shared, verification: Verification) -> None:
        self._channel, self._shared, self._verification = channel, shared, verification
        self._elsewhere = Prediction(opcode=Opcode.RC_WRITE_MIDDLE, dest_qp=channel.ends.own_qpn)

    def take_many(self, stride: int, count: int, port: int, now: int) -> Sequence[bytes]:
        """Take `count` packets of `stride` bytes from the start of the buffer; returns those of other queue pairs."""
        headers = self._shared.inspection.headers(stride)[:count].tobytes()
        return () if self._take_elsewhere(headers, stride, port, now) else self._take_each(stride, count, port, now)

    def take_lone(self, size: int, port: int, bth: tuple[int, int, int, int, int], now: int) -> None:
        """Take the packet of `size` bytes at the start of the buffer."""
        opcode, flags, _, _, word = bth
        header = _HEADER_BYTES.get(opcode)
        if header is None or opcode in _REFUSED:
            if opcode == Opcode.CNP:
                self._take_notification(size, port, bth, now)
            else:
                self._channel.drop("opcode")
            return
        length = size - header - 4
        pad = flags >> 4 & 3
        if length < pad or size & 3 or (length and opcode in _NO_PAYLOAD):
            self._channel.drop("length")
            return
        length -= pad
        psn = Psn(word & 0xFFFFFF)
        ahead, packet = self._whereabouts(psn)
        problem = self._verification.problem(
            size,
            port,
            header=header,
            length=length,
            opcode=opcode,
            packet=packet,
            is_wanted=not ahead or (ahead > 0 and self._shared.options.receiver == "ooo"),
        )
        if problem is not None:
            self._channel.drop(problem)
            return
        self._take(opcode, psn, length, asks=word >= ACK_REQUEST, now=now)

    def _whereabouts(self, psn: Psn) -> tuple[int, int | None]:
        """How far ahead of the packet that is due, and how many packets of the message under way come before it; None:
        it belongs to another.
        """
        responder = self._channel.pair.responder
        ahead, mtu = distance(responder.expected, psn), self._shared.payload.path_mtu
        packet = responder.received_bytes // mtu + ahead
        return ahead, packet if 0 <= packet * mtu < responder.length else None

    def _take(self, opcode: int, psn: Psn, length: int, *, asks: bool, now: int) -> None:
        """Take the intact packet at the start of the buffer."""
        buffer = self._shared.buffer
        if opcode == Opcode.RC_ACK:
            (aeth,) = _AETH.unpack_from(buffer, 12)
            self._channel.answered(psn, aeth >> 24, now)
            return
        if opcode == Opcode.RC_WRITE_ONLY_IMM:
            self._take_write(psn, length, asks=asks, now=now)
            return
        if opcode not in _WRITES:
            self._channel.drop("opcode")  # neither SEND nor READ is part of the profile
            return
        address = size = imm = 0
        if opcode in _RETH_CODES:
            address, rkey, size = _RETH.unpack_from(buffer, 12)
            if rkey != self._shared.rkey:
                self._channel.drop("rkey")
                return
        elif opcode in _IMM_CODES:
            (imm,) = _IMM.unpack_from(buffer, 12)
        self._channel.arrived(Arrival(opcode, psn, 1, length, asks, address, 0, size, imm), now)

    def _take_write(self, psn: Psn, length: int, *, asks: bool, now: int) -> None:
        address, rkey, size, imm = _RETH_IMM.unpack_from(self._shared.buffer, 12)
        if rkey != self._shared.rkey:
            self._channel.drop("rkey")
        elif self._channel.pair.responder.take_write(psn, size=length, length=size, ack_request=asks):
            self._channel.mind_reply(now)
            self._channel.delivered(Delivered(Operation.WRITE, address, size, imm), now)
        else:
            self._channel.arrived(Arrival(Opcode.RC_WRITE_ONLY_IMM, psn, 1, length, asks, address, 0, size, imm), now)

    def _take_elsewhere(self, headers: bytes, stride: int, port: int, now: int) -> bool:
        """MIDDLE packets in order among themselves, perhaps not the next ones: the first one's ICRC stands for all.

        Their payload is looked at as that of the next ones is; of random payload only what is refused anyway is taken.
        """
        shared, expected = self._shared, self._channel.pair.responder.expected
        psn = Psn(int.from_bytes(headers[9:12]))
        count, is_constant = len(headers) // BTH.size, shared.payload.is_constant
        is_refused = distance(expected, psn) > 0 and shared.options.receiver != "ooo"
        if stride != shared.staging.stride or not (is_constant or is_refused):
            return False
        elsewhere = self._elsewhere.headers(psn, count)
        if without_ack_requests(headers) != elsewhere:
            return False
        if is_constant and not self._verification.is_run_right(stride, count, port, received_bytes=0):
            return False
        if not self._verification.is_intact_in_full(stride, port):
            return False
        asks = headers != elsewhere
        self._channel.arrived(Arrival(Opcode.RC_WRITE_MIDDLE, psn, count, shared.payload.path_mtu, asks), now)
        return True

    def _take_each(self, stride: int, count: int, port: int, now: int) -> Sequence[bytes]:
        """Packet by packet, as though they had come so; returns those of other queue pairs."""
        buffer = self._shared.buffer
        datagrams = [bytes(buffer[start : start + stride]) for start in range(0, stride * count, stride)]
        others = []
        for datagram in datagrams:
            buffer[:stride] = datagram
            bth = BTH.unpack_from(buffer)
            if bth[3] & 0xFFFFFF != self._channel.ends.own_qpn:
                others.append(datagram)
            elif bth[1] & 0xF or bth[2] not in P_KEYS:
                self._channel.drop("header")
            elif not self._channel.is_dead:
                self.take_lone(stride, port, bth, now)
        return others

    def _take_notification(self, size: int, port: int, bth: tuple[int, int, int, int, int], now: int) -> None:
        if size != BTH.size + len(CNP_PAYLOAD) + 4:
            self._channel.drop("length")
        elif not self._verification.is_intact_in_full(size, port):
            self._channel.drop("icrc")
        elif not bth[3] & _BECN or bth[4] & 0xFFFFFF or self._shared.buffer[BTH.size : size - 4] != CNP_PAYLOAD:
            self._channel.drop("header")
        else:
            self._channel.pair.notified(now)
