"""The one way in for packets of a queue pair: from bytes to the responder and the requester.

Every reception enters by `Receiver.receive`. Its first comparison is with the headers that are due: a merged reception
of full packets in order needs no other look. What differs is classified, cut into slices that can be handled together,
and verified; what is wrong is dropped and counted by its reason. See docs/adr/0007-one-way-in-for-a-packet.md.

What is verified: headers and ICRC of every packet that comes alone; headers of every packet of a merged reception. Of
constant payload one look in `verify_every` is a sample, which compares the payload too; where a sample finds
something wrong, every packet that came with it is compared. Random payload is always compared.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from emulator.roce.connection.messages import Arrival, Delivered
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.connection.responder import Responder
from emulator.roce.constants import BTH_BYTES, ICRC_BYTES
from emulator.roce.tuning import FEW_PACKETS, KNOWN_PORTS, MOST_SEGMENTS
from emulator.roce.wire.framing import ACK_REQUEST, BTH, BTH_RETH_IMM, ICRC, Framing
from emulator.roce.wire.headers import P_KEYS, Buffer
from emulator.roce.wire.icrc import UdpPath
from emulator.roce.wire.opcodes import MEANINGS, Opcode, PacketOperation, TransportService
from emulator.roce.wire.packet import CNP_PAYLOAD
from emulator.roce.wire.payload import Payload
from emulator.roce.wire.psn import PSN_MASK, Psn, distance, wrap
from emulator.roce.wire.runs import Prediction, classify, follows_first, header_bytes, slices, without_ack_requests

SHORTEST_PACKET_BYTES: Final = BTH_BYTES + ICRC_BYTES

_WORD: Final = struct.Struct(">I")
_RETH: Final = struct.Struct(">QII")
_RETH_IMM: Final = struct.Struct(">QIII")
_HEADER_BYTES: Final = {
    int(code): BTH_BYTES + meaning.extension_bytes
    for code, meaning in MEANINGS.items()
    if meaning.service is TransportService.RC
    and meaning.operation not in (PacketOperation.ATOMIC, PacketOperation.ATOMIC_ACK)
    and code not in (Opcode.RC_SEND_LAST_INVALIDATE, Opcode.RC_SEND_ONLY_INVALIDATE)
}
"""Opcodes whose packets are parsed as far as the ICRC; others are dropped before."""
# Looking one up costs as much as a call.
_MIDDLE: Final = int(Opcode.RC_WRITE_MIDDLE)
_ONLY_IMM: Final = int(Opcode.RC_WRITE_ONLY_IMM)
_ACK: Final = int(Opcode.RC_ACK)
_CNP: Final = int(Opcode.CNP)
_WRITES: Final = frozenset(
    int(code) for code in MEANINGS if MEANINGS[code].operation is PacketOperation.WRITE and code < 0x20
)
_STARTS: Final = frozenset(code for code in _WRITES if MEANINGS[code].place.starts)
_LAST: Final = int(Opcode.RC_WRITE_LAST)
_LAST_IMM: Final = int(Opcode.RC_WRITE_LAST_IMM)
_MIDDLE_BYTE: Final = bytes([_MIDDLE])
_NO_PAYLOAD: Final = frozenset((int(Opcode.RC_READ_REQUEST), _ACK))
_NO_BTH: Final = (-1, 0, 0, 0, 0)
_LEAST_WRITE_BYTES: Final = BTH_RETH_IMM.size + ICRC_BYTES
_WRITE: Final = PacketOperation.WRITE
_unpack_icrc: Final = ICRC.unpack_from
_unpack_write: Final = struct.Struct(">QIQIII").unpack_from
_BECN: Final = 1 << 30


@dataclass(slots=True, eq=False)
class Receiver:
    """What comes to one queue pair.

    Attributes:
        pair: the queue pair.
        payload: what packets are filled with.
        source, destination: packed addresses of the peer and of this end.
        qpn: number of the queue pair at this end.
        rkey: the memory key of the run.
        verify_every: one in this many looks at constant payload compares all of it.
    """

    pair: QueuePair
    payload: Payload
    _: KW_ONLY
    source: bytes
    destination: bytes
    qpn: int
    rkey: int
    verify_every: int
    _responder: Responder = field(init=False)
    _is_constant: bool = field(init=False)
    _is_ooo: bool = field(init=False)
    _framings: dict[int, Framing] = field(default_factory=dict)  # by source port
    _write_starts: Sequence[int] = field(init=False)  # first eight bytes of WRITEs of one packet, by their pad
    _prediction: Prediction = field(init=False)
    _unwatched: int = field(init=False)  # looks at payload until one is a sample
    _suspected: int = 0  # looks that must be samples: some packet received is wrong, and it is not known which

    def __post_init__(self) -> None:
        self._responder, self._prediction = self.pair.responder, Prediction(self.qpn)
        self._is_constant, self._is_ooo = self.payload.is_constant, self.pair.settings.is_ooo
        self._write_starts = [_ONLY_IMM << 56 | pad << 52 | P_KEYS[0] << 32 | self.qpn for pad in range(4)]
        self._unwatched = self.verify_every - 1

    def receive(self, packets: memoryview, stride: int, port: int, now: int) -> Sequence[memoryview]:
        """Take packets back to back, each of `stride` bytes (BTH … ICRC), the last one may be shorter.

        Args:
            packets: in a buffer that stays as it is for the duration of the call.
            stride: at least SHORTEST_PACKET_BYTES.
            port: UDP source port.
            now: ns.

        Returns:
            Those of other queue pairs.
        """
        size, is_write = len(packets), packets[0] == _ONLY_IMM
        self._responder.now_ns = now
        if size == stride:
            if not is_write or not self._receive_writes(packets, 1, stride, port):
                self._receive_one(packets, port, now)
            return ()
        count, rest = divmod(size, stride)
        if is_write:
            is_done = not rest and self._receive_writes(packets, count, stride, port)
        else:
            is_done = not rest and stride == self.payload.packet_bytes and self._receive_due(packets, count, port)
        return () if is_done else self._receive_slices(packets, count, stride, port, now)

    def _receive_due(self, packets: memoryview, count: int, port: int) -> bool:
        """Take full MIDDLE packets that are exactly those due, optionally with a LAST one of the same length.

        ACK requests may be anywhere. Returns False if they are not, or something is wrong in them.
        """
        responder, payload, asks, ends = self._responder, self.payload, False, False
        due, mtu = responder.expected, payload.path_mtu
        headers = header_bytes(packets, count, payload.packet_bytes)
        predicted = self._prediction.headers(due, count)
        if headers != predicted:
            ends = headers[-BTH_BYTES] == _LAST
            if ends:  # without extension headers, only its opcode tells it from a MIDDLE packet
                headers = headers[:-BTH_BYTES] + _MIDDLE_BYTE + headers[1 - BTH_BYTES :]
            asks = headers != predicted
            if asks and without_ack_requests(headers) != predicted:
                return False
        if count - ends > responder.middles_due:  # what breaks the connection has to have a right ICRC
            return False
        if self._is_constant and self._unwatched:
            self._unwatched -= 1
        elif not self._is_run_right(packets, count, port, payload.slot(responder.received_bytes // mtu)):
            return False
        responder.receive_middles(count - ends, ack_request=asks)
        if ends:
            responder.receive(Arrival(_LAST, responder.expected, 1, mtu, asks))
        return True

    def _receive_slices(
        self, packets: memoryview, count: int, stride: int, port: int, now: int
    ) -> Sequence[memoryview]:
        """Take merged packets of any kind; returns those of other queue pairs."""
        if count <= FEW_PACKETS:
            return self._receive_each(packets, stride, port, now)
        others: list[memoryview] = []
        headers = classify(packets, count, stride)
        for first, end in slices(headers):
            if int(headers.dest_qp[first]) != self.qpn:
                others += (packets[place * stride : (place + 1) * stride] for place in range(first, end))
            elif end - first < 2 or not self._receive_run(packets[first * stride : end * stride], end - first, port):
                for place in range(first, end):
                    if self._responder.is_broken:
                        return others
                    self._receive_one(packets[place * stride : (place + 1) * stride], port, now, place)
        tail = packets[count * stride :]
        if len(tail) >= SHORTEST_PACKET_BYTES and (_WORD.unpack_from(tail, 4)[0] & 0xFFFFFF) != self.qpn:
            others.append(tail)
        elif len(tail):
            self._receive_one(tail, port, now, count)
        return others

    def _receive_each(self, packets: memoryview, stride: int, port: int, now: int) -> Sequence[memoryview]:
        """Take merged packets one by one; returns those of other queue pairs."""
        others: list[memoryview] = []
        for place, first in enumerate(range(0, len(packets), stride)):
            packet = packets[first : first + stride]
            if len(packet) >= SHORTEST_PACKET_BYTES and (_WORD.unpack_from(packet, 4)[0] & 0xFFFFFF) != self.qpn:
                others.append(packet)
            elif self._responder.is_broken:
                break
            else:
                self._receive_one(packet, port, now, place)
        return others

    def _receive_writes(self, packets: memoryview, count: int, stride: int, port: int) -> bool:
        """Take WRITEs of one packet that are due: one, or several that are alike and that one call carried.

        Returns False if they are not, or something is wrong in them.
        """
        responder, header = self._responder, BTH_RETH_IMM.size
        if stride < _LEAST_WRITE_BYTES:
            return False
        start: int
        word: int
        size: int
        start, word, address, rkey, size, imm = _unpack_write(packets)
        pad = -size & 3
        if word & PSN_MASK != responder.expected or start != self._write_starts[pad] or rkey != self.rkey:
            return False
        if stride != _LEAST_WRITE_BYTES + size + pad:
            return False
        framing = self._framings.get(port) or self._meet(port)
        (icrc,) = _unpack_icrc(packets, stride - ICRC_BYTES)
        if not self._is_constant or framing.icrc(packets[:header], size) != icrc:
            return False
        if count > 1 and not follows_first(packets, count, stride, header_bytes=header, is_numbered=framing.path.is_v4):
            return False
        if self._unwatched:
            if size:
                self._unwatched -= 1
        elif size and not self._is_sample_right(packets, count, stride, framing, size):
            return False
        return responder.receive_writes(Delivered(_WRITE, address, size, imm, count), word >= ACK_REQUEST)

    def _is_sample_right(self, packets: memoryview, count: int, stride: int, framing: Framing, size: int) -> bool:
        """Compare the payload of WRITEs of one packet, if none of them is suspected: those are looked at alone."""
        if self._suspected or not self._is_sample():
            return False
        rows = _rows(packets, count, stride)[:, BTH_RETH_IMM.size : BTH_RETH_IMM.size + size]
        if (rows == self.payload.rows[0, :size]).all() and framing.is_intact_in_full(packets[:stride]):
            return True
        self._suspect(count)
        return False

    def _receive_run(self, packets: memoryview, count: int, port: int) -> bool:
        """Take MIDDLE packets in order among themselves that need not be due; the first one's ICRC stands for all.

        Of random payload only what is refused anyway is taken. Returns False if each has to be looked at.
        """
        psn, payload = Psn(int.from_bytes(packets[9:BTH_BYTES])), self.payload
        is_refused = distance(self._responder.expected, psn) > 0 and not self._is_ooo
        stride = len(packets) // count
        if stride != payload.packet_bytes or not (payload.is_constant or is_refused):
            return False
        if payload.is_constant and not self._is_run_right(packets, count, port, 0):
            return False
        if not self._framing(port).is_intact_in_full(packets[:stride]):
            return False
        asks = bool(classify(packets, count, stride).ack_request.any())
        self._responder.receive(Arrival(_MIDDLE, psn, count, payload.path_mtu, asks))
        return True

    def _receive_one(self, packet: memoryview, port: int, now: int, place: int = 0) -> None:
        """Take a packet of any kind; `place`: its index among those it was merged with."""
        size = len(packet)
        opcode: int
        flags: int
        number: int
        word: int
        opcode, flags, p_key, number, word = BTH.unpack_from(packet) if size >= SHORTEST_PACKET_BYTES else _NO_BTH
        header = _HEADER_BYTES.get(opcode, 0)
        length = size - header - ICRC_BYTES - (flags >> 4 & 3)
        is_odd = flags & 0xF or p_key not in P_KEYS or not header or length < 0 or size & 3
        if is_odd or (length and opcode in _NO_PAYLOAD):
            return self._receive_odd(packet, port, now)
        psn = wrap(word)
        head: Buffer = packet[:header]
        if number >> 24:  # FECN and BECN are not covered
            head = b"".join((head[:4], b"\0", head[5:]))
        framing = self._framings.get(port) or self._meet(port)
        (icrc,) = _unpack_icrc(packet, size - ICRC_BYTES)
        if self._is_constant and self._unwatched and framing.icrc(head, length) == icrc:
            if length:
                self._unwatched -= 1
        elif (problem := self._problem(packet, head, length, framing, opcode, psn, icrc, place)) is not None:
            return self.pair.drop(problem)
        if opcode == _ACK:
            return self.pair.acknowledge(psn, packet[BTH_BYTES], now)
        address = total = imm = 0
        if opcode in _STARTS:
            if opcode == _ONLY_IMM:
                address, rkey, total, imm = _RETH_IMM.unpack_from(packet, BTH_BYTES)
            else:
                address, rkey, total = _RETH.unpack_from(packet, BTH_BYTES)
            if rkey != self.rkey:
                return self.pair.drop("rkey")
        elif opcode == _LAST_IMM:
            (imm,) = _WORD.unpack_from(packet, BTH_BYTES)
        elif opcode not in _WRITES:  # SEND and READ are not part of the transport's profile
            return self.pair.drop("opcode")
        self._responder.receive(Arrival(opcode, psn, 1, length, word >= ACK_REQUEST, address, 0, total, imm))
        return None

    def _receive_odd(self, packet: memoryview, port: int, now: int) -> None:
        """Take a CNP; drop what is malformed."""
        size, drop = len(packet), self.pair.drop
        if size < SHORTEST_PACKET_BYTES:
            return drop("length")
        opcode, flags, p_key, number, word = BTH.unpack_from(packet)
        if flags & 0xF or p_key not in P_KEYS:
            return drop("header")
        if opcode != _CNP:
            return drop("length" if opcode in _HEADER_BYTES else "opcode")
        if size != BTH_BYTES + len(CNP_PAYLOAD) + ICRC_BYTES:
            return drop("length")
        if not self._framing(port).is_intact_in_full(packet):
            return drop("icrc")
        if not number & _BECN or word & PSN_MASK or packet[BTH_BYTES:-ICRC_BYTES] != CNP_PAYLOAD:
            return drop("header")
        return self.pair.notified(now)

    # Verification.

    def _problem(
        self,
        packet: memoryview,
        head: Buffer,
        length: int,
        framing: Framing,
        opcode: int,
        psn: Psn,
        icrc: int,
        place: int,
    ) -> str | None:
        """What is wrong with a packet that comes alone, "icrc" or "payload"; None: nothing is."""
        payload, slot, is_wanted = self.payload, 0, True
        if length and opcode not in _STARTS:
            ahead = distance(self._responder.expected, psn)
            is_wanted = not ahead or (ahead > 0 and self._is_ooo)
            slot = 0 if payload.is_constant else self._slot(ahead)
        if place and place < MOST_SEGMENTS:  # IP IDs count up in what one call sends, and the ICRC covers them
            icrc ^= framing.ip_id_change(len(packet), place)
        is_as_sent = slot >= 0 and framing.icrc(head, length, slot) == icrc
        if not is_as_sent and not framing.is_intact_in_full(packet):
            return "icrc"
        if not length or not is_wanted:
            return None
        if not self._is_sample() and is_as_sent and payload.is_constant:
            return None
        content = bytes(packet[len(head) : len(head) + length])
        is_same = payload.has(content) if slot < 0 else content == payload.take(slot, length)
        return None if is_same else "payload"

    def _slot(self, ahead: int) -> int:
        """The payload slot of a packet of the message in progress; -1: it belongs to another message."""
        mtu = self.payload.path_mtu
        packet = self._responder.received_bytes // mtu + ahead
        return self.payload.slot(packet) if 0 <= packet * mtu < self._responder.length else -1

    def _is_run_right(self, packets: memoryview, count: int, port: int, slot: int) -> bool:
        """Whether the payload of full MIDDLE packets is right; the first one's is in that slot.

        Random payload always is, constant payload where this is a sample; then the first ICRC is checked, too.
        """
        payload, is_sample = self.payload, self._is_sample()
        if payload.is_constant and not is_sample:
            return True
        stride = len(packets) // count
        expected = payload.rows[:1] if payload.is_constant else payload.rows[slot : slot + count]
        if len(expected) < count and not payload.is_constant:
            expected = payload.rows.take(range(slot, slot + count), axis=0, mode="wrap")
        if (_rows(packets, count, stride)[:, BTH_BYTES:-ICRC_BYTES] != expected).any():
            self._suspect(count)
            return False
        return not is_sample or self._framing(port).is_intact_in_full(packets[:stride])

    def _suspect(self, packets: int) -> None:
        self._suspected, self._unwatched = packets, 0

    def _is_sample(self) -> bool:
        if self._unwatched:
            self._unwatched -= 1
            return False
        if self._suspected:
            self._suspected -= 1
        if not self._suspected:
            self._unwatched = self.verify_every - 1
        return True

    def _framing(self, port: int) -> Framing:
        return self._framings.get(port) or self._meet(port)

    def _meet(self, port: int) -> Framing:
        if len(self._framings) >= KNOWN_PORTS:  # a peer uses few ports: many must not cost memory without bound
            self._framings.clear()
        path = UdpPath(self.source, self.destination, port)
        framing = self._framings[port] = Framing(path, self.qpn, self.payload)
        return framing


def _rows(packets: memoryview, count: int, stride: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(packets, np.uint8, count * stride).reshape(count, stride)
