"""Cuts messages into packets, and makes and checks the packets of one UDP path to one queue pair.

The ICRC is affine: for packets of one length on one path it is a CRC over the headers, four look-ups that append the
payload, and a constant. All packets, alone or as the first of a run, go through `Framing.icrc`.

Source: InfiniBand Architecture Specification, volume 1, sections 9.3 and 9.7.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from zlib import crc32

from emulator.roce.connection.messages import AtomicResponse, Message, PacketRun, Reply, ResponseRun, Verb
from emulator.roce.constants import BTH_BYTES, ICRC_BYTES
from emulator.roce.wire.headers import NO_CREDIT_LIMIT, P_KEYS, Aeth, AtomicAckEth, Buffer, ImmDt, Reth
from emulator.roce.wire.icrc import UdpPath, icrc, ip_id_changes, recover_ip_id, shift_table
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.packet import CNP_PAYLOAD
from emulator.roce.wire.payload import GsoBatch, Payload, Staging
from emulator.roce.wire.psn import Psn, add
from emulator.roce.wire.runs import Template, build


class Opcodes(NamedTuple):
    """The opcodes of a message's packets by their place."""

    first: int
    middle: int
    last: int
    only: int


class Segments(NamedTuple):
    """The packets of one message.

    Attributes:
        opcodes: by place.
        first, last, only: the headers after the BTH of a FIRST, LAST and ONLY packet; a MIDDLE packet has none.
    """

    opcodes: Opcodes
    first: bytes
    last: bytes
    only: bytes

    def at(self, number: int, total: int) -> tuple[int, bytes]:
        """Opcode and headers of packet `number` of `total`."""
        if total == 1:
            return self.opcodes.only, self.only
        if number == total - 1:
            return self.opcodes.last, self.last
        return (self.opcodes.middle, b"") if number else (self.opcodes.first, self.first)


_OPCODES: Mapping[Verb, Opcodes] = {
    verb: Opcodes(*(int(code) for code in codes))
    for verb, codes in {
        Verb.SEND: (Opcode.RC_SEND_FIRST, Opcode.RC_SEND_MIDDLE, Opcode.RC_SEND_LAST, Opcode.RC_SEND_ONLY),
        Verb.SEND_IMM: (
            Opcode.RC_SEND_FIRST, Opcode.RC_SEND_MIDDLE, Opcode.RC_SEND_LAST_IMM, Opcode.RC_SEND_ONLY_IMM,
        ),
        Verb.WRITE: (Opcode.RC_WRITE_FIRST, Opcode.RC_WRITE_MIDDLE, Opcode.RC_WRITE_LAST, Opcode.RC_WRITE_ONLY),
        Verb.WRITE_IMM: (
            Opcode.RC_WRITE_FIRST, Opcode.RC_WRITE_MIDDLE, Opcode.RC_WRITE_LAST_IMM, Opcode.RC_WRITE_ONLY_IMM,
        ),
    }.items()
}  # fmt: skip
WRITE_OPCODES: Final = _OPCODES[Verb.WRITE]
"""Those of an RDMA WRITE without immediate data."""
_RESPONSE_OPCODES: Final = Opcodes(
    int(Opcode.RC_READ_RESPONSE_FIRST),
    int(Opcode.RC_READ_RESPONSE_MIDDLE),
    int(Opcode.RC_READ_RESPONSE_LAST),
    int(Opcode.RC_READ_RESPONSE_ONLY),
)


def message_segments(message: Message) -> Segments:
    """The packets of a SEND or WRITE."""
    operation_headers = b""
    if message.verb in (Verb.WRITE, Verb.WRITE_IMM):
        operation_headers = Reth(message.address, message.rkey, message.size).pack()
    imm = ImmDt(message.imm).pack() if message.verb in (Verb.SEND_IMM, Verb.WRITE_IMM) else b""
    return Segments(_OPCODES[message.verb], operation_headers, imm, operation_headers + imm)


def response_segments(run: ResponseRun) -> Segments:
    """The packets of a READ response."""
    aeth = Aeth(NO_CREDIT_LIMIT, run.msn).pack()
    return Segments(_RESPONSE_OPCODES, aeth, aeth, aeth)


def atomic_response(response: AtomicResponse) -> bytes:
    """The headers of the response to an atomic."""
    return Aeth(NO_CREDIT_LIMIT, response.msn).pack() + AtomicAckEth(response.original).pack()


def read_request(run: PacketRun, path_mtu: int) -> bytes:
    """The RETH of a READ request: for what is missing of the message from the run's offset on."""
    message, taken = run.message, run.offset * path_mtu
    return Reth(message.address + taken, message.rkey, message.size - taken).pack()


BTH: Final = struct.Struct(">BBHII")
BTH_RETH_IMM: Final = struct.Struct(">BBHIIQIII")
BTH_WORD: Final = struct.Struct(">BBHIII")
"""BTH and one word: an AETH, or immediate data."""
ICRC: Final = struct.Struct("<I")
ACK_REQUEST: Final = 1 << 31
"""In the last word of the BTH, above the PSN."""

_P_KEY: Final = P_KEYS[0]
_ONLY_IMM: Final = int(Opcode.RC_WRITE_ONLY_IMM)
_ACK: Final = int(Opcode.RC_ACK)
_CNP: Final = int(Opcode.CNP)
_BECN_BYTE: Final = 0x40
_pack_write: Final = BTH_RETH_IMM.pack_into
_pack_icrc: Final = ICRC.pack_into


class _Shape:
    """What packets of one path and one length have in common.

    Args:
        prefix: CRC of what precedes the BTH.
        padded: bytes of payload and pad.
        constant: what to XOR into the CRC for the payload, and for FECN and BECN, which count as ones.
        datagram: room for such a packet.
    """

    __slots__ = ("_constant", "_prefix", "_tables", "datagram", "end", "header")

    def __init__(self, prefix: int, padded: int, constant: int, datagram: bytearray) -> None:
        self._prefix, self._constant = prefix, constant
        self._tables = _shifts(padded) if padded else None  # most small packets are ACKs and credits, without payload
        self.datagram, self.end = datagram, len(datagram) - ICRC_BYTES
        self.header = memoryview(datagram)[: self.end - padded]

    def icrc(self, header: Buffer) -> int:
        """With IP ID 0, and the payload of slot 0."""
        crc, tables = crc32(header, self._prefix), self._tables
        if tables is None:
            return crc ^ self._constant
        a, b, c, d = tables
        return a[crc & 0xFF] ^ b[crc >> 8 & 0xFF] ^ c[crc >> 16 & 0xFF] ^ d[crc >> 24] ^ self._constant


class Framing:
    """Makes and checks packets; FECN and BECN are 0 in every header given and made, but for a CNP's BECN.

    Args:
        path: addresses and ports.
        dest_qp: queue pair number.
        payload: what packets are filled with.
    """

    __slots__ = ("_middles", "_payload", "_shapes", "dest_qp", "path")

    def __init__(self, path: UdpPath, dest_qp: int, payload: Payload) -> None:
        self.path, self.dest_qp, self._payload = path, dest_qp, payload
        self._middles: dict[int, Template] = {}  # by opcode
        self._shapes: dict[int, _Shape] = {}  # by payload bytes << 8 | header bytes

    def icrc(self, header: Buffer, size: int = 0, slot: int = 0) -> int:
        """The ICRC with IP ID 0 of a header, the first `size` bytes of a slot, and their pad."""
        shape = self._shapes.get(size << 8 | len(header)) or self._make_shape(len(header), size)
        if slot:
            return shape.icrc(header) ^ self._payload.crc(slot, size) ^ self._payload.crc(0, size)
        return shape.icrc(header)

    def is_intact_in_full(self, packet: memoryview) -> bool:
        """Whether a packet's ICRC is right for some IP ID; its payload is not compared."""
        (received,) = ICRC.unpack_from(packet, len(packet) - ICRC_BYTES)
        return recover_ip_id(self.path, packet[:-ICRC_BYTES], received) is not None

    def ip_id_change(self, packet_bytes: int, ip_id: int) -> int:
        """What a small IP ID changes in a packet's ICRC."""
        return int(ip_id_changes(packet_bytes)[ip_id]) if self.path.is_v4 else 0

    def packet(self, header: bytes, size: int = 0, slot: int = 0) -> Buffer:
        """One packet with IP ID 0: the header, the first `size` bytes of a slot and their pad, the ICRC.

        Valid until the next packet of this length is made, on any path.
        """
        if slot:
            icrc = ICRC.pack(self.icrc(header, size, slot))
            return b"".join((header, self._payload.take(slot, size), bytes(-size & 3), icrc))
        shape = self._shapes.get(size << 8 | len(header)) or self._make_shape(len(header), size)
        shape.header[:] = header
        _pack_icrc(shape.datagram, shape.end, shape.icrc(header))
        return shape.datagram

    def write(self, psn: int, message: Message) -> Buffer:
        """A WRITE of one packet with immediate data; like every packet that ends a message, it requests an ACK."""
        size = message.size
        shape = self._shapes.get(size << 8 | BTH_RETH_IMM.size) or self._make_shape(BTH_RETH_IMM.size, size)
        _pack_write(
            shape.datagram, 0, _ONLY_IMM, (-size & 3) << 4, _P_KEY, self.dest_qp, ACK_REQUEST | psn, message.address,
            message.rkey, size, message.imm,
        )  # fmt: skip
        _pack_icrc(shape.datagram, shape.end, shape.icrc(shape.header))
        return shape.datagram

    def single(
        self,
        opcode: int,
        psn: Psn,
        headers: bytes = b"",
        size: int = 0,
        slot: int = 0,
        *,
        ack_request: bool = True,
        ip_id: int = 0,
    ) -> Buffer:
        """A packet of any opcode: extension headers, then the first `size` bytes of a slot; valid as for `packet`.

        `ip_id` is its number in a call that the kernel cuts.
        """
        word = ACK_REQUEST | psn if ack_request else psn
        packet = self.packet(BTH.pack(opcode, (-size & 3) << 4, _P_KEY, self.dest_qp, word) + headers, size, slot)
        if not ip_id:
            return packet
        (icrc,) = ICRC.unpack_from(packet, len(packet) - ICRC_BYTES)
        return bytes(packet[:-ICRC_BYTES]) + ICRC.pack(icrc ^ self.ip_id_change(len(packet), ip_id))

    def with_content(
        self, opcode: int, psn: Psn, headers: bytes, content: Buffer, *, ack_request: bool = True
    ) -> bytes:
        """A packet with a content of its own."""
        pad, word = -len(content) & 3, ACK_REQUEST | psn if ack_request else psn
        bth = BTH.pack(opcode, pad << 4, _P_KEY, self.dest_qp, word)
        packet = b"".join((bth, headers, content, bytes(pad)))
        return packet + ICRC.pack(icrc(self.path, packet))

    def writes(self, psn: Psn, message: Message, most: int) -> tuple[GsoBatch, int]:
        """WRITEs of one packet back to back, equal but for their PSNs: `most`, or as many as one call carries.

        Returns:
            The batch, which holds as `packet` does, and how many packets it has.
        """
        batch = self._payload.batch(BTH_RETH_IMM.size, message.size)
        packet = self.write(0, message)
        (icrc,) = ICRC.unpack_from(packet, len(packet) - ICRC_BYTES)
        count, template = min(most, batch.packets), Template(bytes(packet[: BTH_RETH_IMM.size]), icrc, len(packet))
        numbered = ip_id_changes(len(packet))[:count] if self.path.is_v4 else None
        build(template, psn, batch.columns, 0, count, numbered)
        return batch, count

    def ack(self, reply: Reply) -> Buffer:
        """An ACK or NAK."""
        return self.packet(BTH_WORD.pack(_ACK, 0, _P_KEY, self.dest_qp, reply.psn, reply.syndrome << 24 | reply.msn))

    def notification(self) -> Buffer:
        """A CNP."""
        packet = bytearray(self.packet(BTH.pack(_CNP, 0, _P_KEY, self.dest_qp, 0) + CNP_PAYLOAD))
        packet[4] |= _BECN_BYTE
        return packet

    def middles(
        self,
        staging: Staging,
        psn: Psn,
        slot: int,
        count: int,
        ack_request: bool,
        ends: bool,
        *,
        are_cut: bool,
        opcodes: Opcodes = WRITE_OPCODES,
    ) -> None:
        """Write `count` MIDDLE packets to the staging buffer from `slot` on, not beyond its end.

        Args:
            staging: of this path's payload.
            ack_request: of the last packet.
            ends: the last one is the message's LAST, full and without immediate data: as long as the others.
            are_cut: the kernel will cut calls of `Payload.per_call` packets and number the IP IDs of each from 0; else
                every packet is sent alone with ID 0.
            opcodes: of the message.
        """
        staging.version += 1
        payload, end = self._payload, slot + count
        numbered = staging.numbered[:count] if are_cut and self.path.is_v4 else None
        template = self._middles.get(opcodes.middle) or self._make_middle(opcodes.middle)
        build(template, psn, staging.columns, slot, end, numbered)
        if not payload.is_constant:
            staging.columns.icrcs[slot:end] ^= payload.slot_crcs[slot:end] ^ payload.slot_crcs[0]
        if ack_request or ends:  # only the last packet differs: it is made alone
            opcode, word = (
                opcodes.last if ends else opcodes.middle,
                add(psn, count - 1) | (ACK_REQUEST if ack_request else 0),
            )
            header = BTH.pack(opcode, 0, _P_KEY, self.dest_qp, word)
            start = (end - 1) * staging.step
            staging.buffer[start : start + BTH_BYTES] = header
            icrc = self.icrc(header, payload.path_mtu, 0 if payload.is_constant else end - 1)
            staging.columns.icrcs[end - 1] = icrc if numbered is None else icrc ^ int(numbered[-1])

    def _make_middle(self, opcode: int) -> Template:
        header = BTH.pack(opcode, 0, _P_KEY, self.dest_qp, 0)
        icrc = self.icrc(header, self._payload.path_mtu)
        template = self._middles[opcode] = Template(header, icrc, self._payload.packet_bytes)
        return template

    def _make_shape(self, header_bytes: int, size: int) -> _Shape:
        """The CRC is affine: what one packet's differs by from the look-ups' result, they all do."""
        padded, header = size + (-size & 3), bytes(header_bytes)
        headers = self.path.masked_headers(header_bytes + padded + ICRC_BYTES)
        payload = bytes(self._payload.take(0, size)).ljust(padded, b"\0")
        datagram = self._payload.datagram(header_bytes, size)
        difference = _Shape(crc32(headers), padded, 0, datagram).icrc(header)
        constant = crc32(headers + header[:4] + b"\xff" + header[5:] + payload) ^ difference
        shape = self._shapes[size << 8 | header_bytes] = _Shape(crc32(headers), padded, constant, datagram)
        return shape


@lru_cache(maxsize=4096)
def _shifts(size: int) -> Sequence[Sequence[int]]:
    """What appending `size` zero bytes does to a CRC: four tables, for its bytes from the lowest."""
    return tuple(tuple(row) for row in shift_table(size).tables.tolist())
