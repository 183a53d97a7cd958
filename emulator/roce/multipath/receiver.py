"""A queue pair of the multipath profile, and the one way in for its packets: from bytes to responder and requester.

Two controls work together. DCQCN, if it is chosen, sets the rate of the queue pair, as for a reliable connection; the
window of each path decides which paths that rate goes to. So CNPs slow a queue pair down, and losses, trimmed packets
and marks move its packets away from the path where they happened.

What the kernel has merged is checked together: headers and ICRC of every packet; the payload of one look in
`verify_every`, or of every packet if it is random. What does not fit together is looked at packet by packet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field

import numpy as np
import numpy.typing as npt

from emulator.roce.connection.memory import Memory
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.connection.receiver import SHORTEST_PACKET_BYTES
from emulator.roce.constants import BTH_BYTES, ICRC_BYTES
from emulator.roce.multipath.paths import Health
from emulator.roce.multipath.requester import MultipathRequester
from emulator.roce.multipath.responder import MultipathResponder
from emulator.roce.multipath.wire import (
    SELECTIVE_ACK,
    Placed,
    SelectiveAck,
    icrc_changes,
    is_header_sound,
    parse_write,
    words_of,
)
from emulator.roce.tuning import KNOWN_PORTS, MOST_SEGMENTS
from emulator.roce.wire.framing import BTH, Framing
from emulator.roce.wire.icrc import U32Array, UdpPath, ip_id_changes
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.packet import CNP_PAYLOAD
from emulator.roce.wire.payload import Payload
from emulator.roce.wire.psn import PSN_MASK, Psn


@dataclass(slots=True, eq=False)
class MultipathPair(QueuePair):
    """One end of a connection.

    Attributes:
        health: which paths to the peer carry packets; None: there is one path.
        batch_packets: see MultipathRequester.
        dealer, placer: the requester and the responder, by what they do beyond those of a reliable connection.
    """

    health: InitVar[Health | None] = None
    batch_packets: InitVar[int] = 1
    dealer: MultipathRequester = field(init=False)
    placer: MultipathResponder = field(init=False)

    def __post_init__(
        self,
        send_psn: Psn,
        expect_psn: Psn,
        memory: Memory,
        cnp_gap_ns: int,
        health: Health | None,
        batch_packets: int,
    ) -> None:
        QueuePair.__post_init__(self, send_psn, expect_psn, memory, cnp_gap_ns)
        self.requester = self.dealer = MultipathRequester(
            self.settings, send_psn, health=health or Health(1), batch_packets=batch_packets
        )
        self.responder = self.placer = MultipathResponder(self.settings, expect_psn, memory)

    def acknowledge_selectively(self, ack: SelectiveAck, now: int) -> None:
        """Take a selective acknowledgement; the messages it completes join `completed`."""
        done = self.dealer.acknowledge_selectively(ack, now)
        self.completed = [*self.completed, *done] if self.completed else done

    def marked(self, packets: int, now: int) -> bool:
        """See QueuePair; the sender also learns which packets were marked, and so which paths."""
        self.placer.report_marks()
        return QueuePair.marked(self, packets, now)


_CNP = int(Opcode.CNP)
_CNP_BYTES = BTH_BYTES + len(CNP_PAYLOAD) + ICRC_BYTES
_BECN = 1 << 30


@dataclass(slots=True, eq=False)
class MultipathReceiver:
    """What comes to one queue pair; attributes as for `emulator.roce.connection.receiver.Receiver`."""

    pair: MultipathPair
    payload: Payload
    _: KW_ONLY
    source: bytes
    destination: bytes
    qpn: int
    rkey: int
    verify_every: int
    _framings: dict[int, Framing] = field(default_factory=dict)  # by source port
    _unwatched: int = 0  # looks at payload until one is a sample

    def receive(self, packets: memoryview, stride: int, port: int, now: int) -> Sequence[memoryview]:
        """Take packets back to back, each of `stride` bytes, the last one may be shorter; see `Receiver.receive`."""
        self.pair.placer.begin()
        others: list[memoryview] = []
        count, rest = divmod(len(packets), stride)
        if count > 1 and self._receive_run(packets, count, stride, port):
            starts: Sequence[int] = (count * stride,) if rest else ()
        else:
            starts = range(0, len(packets), stride)
        for start in starts:
            packet = packets[start : start + stride]
            if len(packet) >= BTH_BYTES and BTH.unpack_from(packet)[3] & PSN_MASK != self.qpn:
                others.append(packet)
            else:
                self._receive_one(packet, port, now)
        return others

    def _receive_run(self, packets: memoryview, count: int, stride: int, port: int) -> bool:
        """Take whole WRITEs of one length that differ in PSN and address alone; False: each has to be looked at."""
        first = parse_write(packets)
        if first is None or not is_header_sound(packets, self.qpn) or first.rkey != self.rkey or not first.size:
            return False
        if first.imm is not None or stride != _whole_bytes(first) or count > MOST_SEGMENTS:
            return False
        words = words_of(packets, count, stride)
        changes = icrc_changes(words, stride)
        if changes is None or int(words[0, 1]) & 0xC0:  # the byte with FECN and BECN stands first in memory
            return False
        framing = self._framing(port)
        received: U32Array = np.ndarray((count,), "<u4", packets, stride - ICRC_BYTES, (stride,))
        slots = np.zeros(count, np.int64)
        if not self._is_payload_right(packets, count, stride, first, slots):
            return False
        expected = changes ^ np.uint32(framing.icrc(packets[: first.header_bytes], first.size, int(slots[0])))
        if not self.payload.is_constant and first.size == self.payload.path_mtu:
            expected = expected ^ self.payload.slot_crcs[slots] ^ self.payload.slot_crcs[slots[0]]
        if not _fits_ip_ids(received ^ expected, stride, is_v4=framing.path.is_v4):
            return False
        psns, lows, highs = (words[:, at].byteswap().tolist() for at in (2, 4, 3))
        place = self.pair.placer.place
        for psn, low, high in zip(psns, lows, highs, strict=True):
            place(first._replace(psn=Psn(psn & PSN_MASK), address=high << 32 | low, ends_message=psn >> 31 == 1))
        return True

    def _is_payload_right(
        self, packets: memoryview, count: int, stride: int, first: Placed, slots: npt.NDArray[np.int64]
    ) -> bool:
        """Compare payload, all of it if it is random; finds the slot of each packet's payload then."""
        if self.payload.is_constant and self._unwatched:
            self._unwatched -= 1
            return True
        self._unwatched = self.verify_every - 1
        start = first.header_bytes
        rows = np.frombuffer(packets, np.uint8, count * stride).reshape(count, stride)[:, start : start + first.size]
        if self.payload.is_constant:
            return bool((rows == self.payload.rows[0, : first.size]).all())
        for at, row in enumerate(rows):
            slots[at] = self._slot_of(row.tobytes())
        return bool((slots >= 0).all())

    def _slot_of(self, content: bytes) -> int:
        """The slot that begins with these bytes; -1: none does."""
        found = np.flatnonzero((self.payload.rows[:, : min(16, len(content))] == _bytes(content[:16])).all(axis=1))
        return next((int(slot) for slot in found if self.payload.take(int(slot), len(content)) == content), -1)

    def _receive_one(self, packet: memoryview, port: int, now: int) -> None:
        """Take a packet of any kind."""
        drop, responder = self.pair.drop, self.pair.placer
        if len(packet) < BTH_BYTES or not is_header_sound(packet, self.qpn):
            return drop("length" if len(packet) < BTH_BYTES else "header")
        write = parse_write(packet)
        whole = SelectiveAck.whole_bytes(packet) if packet[0] == SELECTIVE_ACK else 0
        if write is not None and len(packet) < _whole_bytes(write):
            return responder.cut_short(write.psn) if write.rkey == self.rkey else drop("rkey")
        if len(packet) < whole or (packet[0] == _CNP and len(packet) < _CNP_BYTES):
            responder.trimmed += 1
            return None
        if len(packet) < SHORTEST_PACKET_BYTES or len(packet) & 3:
            return drop("length")
        if write is None and packet[0] not in (SELECTIVE_ACK, _CNP):
            return drop("opcode")
        if not self._framing(port).is_intact_in_full(packet):
            return drop("icrc")
        if write is not None:
            return self._receive_write(packet, write)
        if packet[0] == _CNP:
            is_right = packet[BTH_BYTES:-ICRC_BYTES] == CNP_PAYLOAD and BTH.unpack_from(packet)[3] & _BECN
            return self.pair.notified(now) if is_right else drop("header")
        ack = SelectiveAck.parse(packet)
        return self.pair.acknowledge_selectively(ack, now) if ack is not None else drop("length")

    def _receive_write(self, packet: memoryview, write: Placed) -> None:
        drop = self.pair.drop
        if write.rkey != self.rkey:
            return drop("rkey")
        if len(packet) != _whole_bytes(write):
            return drop("length")
        if write.size:
            content = bytes(packet[write.header_bytes : write.header_bytes + write.size])
            if self._slot_of(content) < 0:
                return drop("payload")
        return self.pair.placer.place(write)

    def _framing(self, port: int) -> Framing:
        framing = self._framings.get(port)
        if framing is None:
            if len(self._framings) >= KNOWN_PORTS:
                self._framings.clear()
            path = UdpPath(self.source, self.destination, port)
            framing = self._framings[port] = Framing(path, self.qpn, self.payload)
        return framing


def _whole_bytes(write: Placed) -> int:
    """Length of a WRITE that no switch has trimmed, BTH … ICRC."""
    return write.header_bytes + write.size + (-write.size & 3) + ICRC_BYTES


def _fits_ip_ids(differences: U32Array, packet_bytes: int, *, is_v4: bool) -> bool:
    """Whether ICRCs differ from those for IP ID 0 as IDs that are all alike, or count up, make them differ."""
    if not is_v4:
        return not differences.any()
    changes = ip_id_changes(packet_bytes)
    found = np.flatnonzero(changes == differences[0])
    if not len(found):
        return False
    first = int(found[0])
    return bool((differences == differences[0]).all()) or bool(
        np.array_equal(differences, changes[first : first + len(differences)])
    )


def _bytes(content: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(content, np.uint8)
