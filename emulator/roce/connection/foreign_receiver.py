"""The entry of packets from a peer that is not ours: any operation, any payload.

Every packet is parsed and its ICRC checked. Linux and NICs count up the IP ID of IPv4 packets, which a UDP socket does
not show and the ICRC covers: it is recovered from the ICRC, of whose 32 bits 16 remain to check the packet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TypeAlias

from emulator.roce.connection.memory import Access, MemoryRegion
from emulator.roce.connection.messages import Arrival
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.constants import ICRC_BYTES
from emulator.roce.tuning import KNOWN_PORTS
from emulator.roce.wire.headers import Aeth, AtomicEth, ImmDt, Reth
from emulator.roce.wire.icrc import UdpPath, recover_ip_id
from emulator.roce.wire.opcodes import PacketOperation, TransportService
from emulator.roce.wire.packet import Packet, Problem, is_congestion_notification, parse_packet

Sink: TypeAlias = Callable[[Packet], None]
"""Called with every packet that carries payload and was taken, in order."""

_DROP_REASONS = {
    Problem.SHORT: "length",
    Problem.PAD: "length",
    Problem.PAYLOAD: "length",
    Problem.OPCODE: "opcode",
    Problem.TRANSPORT_VERSION: "header",
    Problem.P_KEY: "header",
}
assert set(_DROP_REASONS) == set(Problem)
_REQUESTS = (PacketOperation.SEND, PacketOperation.WRITE, PacketOperation.READ_REQUEST, PacketOperation.ATOMIC)


@dataclass(slots=True, eq=False)
class ForeignReceiver:
    """What comes to one queue pair.

    Attributes:
        pair: the queue pair.
        source, destination: packed addresses of the peer and of this end.
        qpn: number of the queue pair at this end.
        sink: takes payload; None: it is discarded.
        refused: called with packets of another transport service, which are dropped.
    """

    pair: QueuePair
    _: KW_ONLY
    source: bytes
    destination: bytes
    qpn: int
    sink: Sink | None = None
    refused: Sink | None = None
    _target: MemoryRegion | None = None  # of the WRITE in progress
    _address: int = 0
    _paths: dict[int, UdpPath] = field(default_factory=dict)  # by source port

    def receive(self, packets: memoryview, stride: int, port: int, now: int) -> Sequence[memoryview]:
        """Receive packets back to back; arguments and result as for `Receiver.receive`."""
        others: list[memoryview] = []
        self.pair.responder.now_ns = now
        for start in range(0, len(packets), stride):
            packet = packets[start : start + stride]
            if int.from_bytes(packet[5:8]) == self.qpn or len(packet) < 8:
                self._receive_one(packet, port, now)
            else:
                others.append(packet)
        return others

    def _receive_one(self, data: memoryview, port: int, now: int) -> None:
        packet = parse_packet(data)
        if isinstance(packet, Problem):
            return self.pair.drop(_DROP_REASONS[packet])
        if recover_ip_id(self._path(port), data[:-ICRC_BYTES], packet.icrc) is None:
            return self.pair.drop("icrc")
        meaning = packet.meaning
        if meaning.operation is PacketOperation.CNP:
            return self.pair.notified(now) if is_congestion_notification(packet) else self.pair.drop("header")
        if meaning.service is not TransportService.RC:
            if self.refused is not None:
                self.refused(packet)
            return self.pair.drop("opcode")
        if meaning.operation in _REQUESTS:
            return self._receive_request(packet)
        return self._receive_response(packet, now)

    def _receive_request(self, packet: Packet) -> None:
        responder, size = self.pair.responder, len(packet.payload)
        expected, offset = responder.expected, responder.received_bytes
        responder.receive(_arrival(packet))
        if not size or responder.expected == expected:
            return
        if packet.meaning.operation is PacketOperation.WRITE:
            self._store(packet, offset)
        if self.sink is not None:
            self.sink(packet)

    def _store(self, packet: Packet, offset: int) -> None:
        """Store the payload of a WRITE that was taken; `offset`: of its packet in the message."""
        if packet.meaning.place.starts:
            (reth,) = (header for header in packet.extensions if isinstance(header, Reth))
            self._target = self.pair.responder.memory.region(reth.rkey, reth.address, reth.length, Access.WRITE)
            self._address = reth.address
        if self._target is not None:
            self._target.write(self._address + offset, packet.payload)

    def _receive_response(self, packet: Packet, now: int) -> None:
        aeth = next((header for header in packet.extensions if isinstance(header, Aeth)), None)
        if packet.meaning.operation is PacketOperation.READ_RESPONSE:
            is_next = packet.bth.psn == self.pair.requester.oldest_psn
            self.pair.take_response(packet.bth.psn, now)
            if is_next and self.sink is not None and packet.bth.psn != self.pair.requester.oldest_psn:
                self.sink(packet)
            return None
        if packet.meaning.operation is PacketOperation.ACK and aeth is not None:
            return self.pair.acknowledge(packet.bth.psn, aeth.syndrome, now, aeth.msn)
        return self.pair.drop("opcode")

    def _path(self, port: int) -> UdpPath:
        path = self._paths.get(port)
        if path is None:
            if len(self._paths) >= KNOWN_PORTS:
                self._paths.clear()
            path = self._paths[port] = UdpPath(self.source, self.destination, port)
        return path


def _arrival(packet: Packet) -> Arrival:
    bth, size = packet.bth, len(packet.payload)
    address = rkey = length = imm = swap_or_add = compare = 0
    for header in packet.extensions:
        if isinstance(header, Reth):
            address, rkey, length = header.address, header.rkey, header.length
        elif isinstance(header, AtomicEth):
            address, rkey, swap_or_add, compare = header.address, header.rkey, header.swap_or_add, header.compare
        elif isinstance(header, ImmDt):
            imm = header.value
    return Arrival(bth.opcode, bth.psn, 1, size, bth.ack_request, address, rkey, length, imm, swap_or_add, compare)
