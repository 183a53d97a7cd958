"""Packets that travel alone and are many: WRITEs of one packet, and ACKs.

Whatever repeats on a path is a constant, found once per size: such a packet costs a CRC over its headers and four
look-ups, on either side.
"""

from __future__ import annotations

import struct
from typing import TypeAlias
from zlib import crc32

import numpy as np

from emulator.roce.gf2 import U32Array
from emulator.roce.headers import Buffer
from emulator.roce.icrc import ip_id_changes, psn_changes
from emulator.roce.messages import Message
from emulator.roce.opcodes import Opcode
from emulator.roce.psn import Psn
from emulator.roce.runs import ACK_REQUEST, BIG_ENDIAN, ICRC, MOST_SEGMENTS, P_KEY, Framing, Shifts, Train, shifts

WRITE = struct.Struct(">BBHIIQIII")
"""BTH, RETH and immediate data of a WRITE ONLY."""
ACK = struct.Struct(">BBHIII")
"""BTH and AETH."""
ACK_BYTES = ACK.size + ICRC.size

_WRITE_ONLY_IMM, _ACK = int(Opcode.RC_WRITE_ONLY_IMM), int(Opcode.RC_ACK)
_LOW_PSN = struct.Struct(">2xH")
_BTH_WORDS = struct.Struct(">BBHII")
_pack_write, _pack_icrc = WRITE.pack_into, ICRC.pack_into
_Shape: TypeAlias = tuple[int, int, Shifts | None, int, bytearray, memoryview, int]
"""Of one size: CRC of what precedes the BTH, what to XOR, what appending the payload does, flags; the datagram but for
its headers and ICRC, those headers, where the ICRC is."""


class SinglePackets:
    """Makes and checks the single packets of one path to one queue pair; FECN and BECN are 0, and so is the IP ID, but
    for those of a train: there it is the packet's place.

    Args:
        framing: of the path.
        path_mtu: payload of a WRITE, bytes, at most.
    """

    __slots__ = ("_ack", "_dest_qp", "_framing", "_shape", "_size", "_writes", "path_mtu")

    def __init__(self, framing: Framing, *, path_mtu: int) -> None:
        self._framing, self._dest_qp, self.path_mtu = framing, framing.dest_qp, path_mtu
        self._writes: dict[int, _Shape] = {}
        self._size: int
        self._shape: _Shape
        self._ack = self._make(Opcode.RC_ACK, ACK.size, 0)
        self._turn_to(0)

    def write(self, psn: int, address: int, rkey: int, size: int, imm: int) -> Buffer:
        """A WRITE ONLY with immediate data and `size` bytes of the first slot, which asks for an acknowledgement.

        It holds until the next one of that size is made, whatever its path.
        """
        prefix, constant, shift, flags, datagram, header, end = (
            self._shape if size == self._size else self._turn_to(size)
        )
        _pack_write(
            datagram, 0, _WRITE_ONLY_IMM, flags, P_KEY, self._dest_qp, ACK_REQUEST | psn, address, rkey, size, imm
        )
        crc = crc32(header, prefix)
        if shift is not None:
            a, b, c, d = shift
            crc = a[crc & 0xFF] ^ b[crc >> 8 & 0xFF] ^ c[crc >> 16 & 0xFF] ^ d[crc >> 24]
        _pack_icrc(datagram, end, crc ^ constant)
        return datagram

    def train(self, psn: Psn, message: Message, count: int, rkey: int) -> Train:
        """The same for `count` messages like this one, PSNs counting up without a carry from their lower 16 bits.

        It holds until the next one of that size is made.
        """
        size = message.size
        prefix, constant, shift, flags, _, _, _ = self._shape if size == self._size else self._turn_to(size)
        train = self._framing.train(WRITE.size, size)
        _pack_write(
            train.buffer, 0, _WRITE_ONLY_IMM, flags, P_KEY, self._dest_qp, ACK_REQUEST | psn, message.address, rkey,
            size, message.imm,
        )  # fmt: skip
        crc = crc32(train.header, prefix)
        if shift is not None:
            a, b, c, d = shift
            crc = a[crc & 0xFF] ^ b[crc >> 8 & 0xFF] ^ c[crc >> 16 & 0xFF] ^ d[crc >> 24]
        low = psn & 0xFFFF
        words, psns = train.words[:count], BIG_ENDIAN[low : low + count]
        words[1:] = words[0]
        words[:, 2] = psns ^ (words[0, 2] ^ psns[0])
        icrcs, changes = train.icrcs[:count], psn_changes(train.stride)[low : low + count]
        np.bitwise_xor(changes, np.uint32(crc ^ constant) ^ changes[0], out=icrcs)
        if self._framing.path.is_v4:
            icrcs ^= ip_id_changes(train.stride)[:count]
        return train

    def is_write(self, headers: Buffer, size: int, datagram_bytes: int, flags: int, icrc: int, place: int = 0) -> bool:
        """Whether these headers of a WRITE ONLY, FECN and BECN 0, fit length and ICRC, if its payload is the slot's.

        Args:
            headers: the 32 bytes.
            size: what its RETH says.
            datagram_bytes: BTH … ICRC.
            flags: its second byte.
            icrc: as received.
            place: in its train.
        """
        if size > self.path_mtu:
            return False
        prefix, constant, shift, expected_flags, _, _, end = self._shape if size == self._size else self._turn_to(size)
        if flags != expected_flags or datagram_bytes != end + 4:
            return False
        if place and self._framing.path.is_v4:
            icrc ^= int(ip_id_changes(datagram_bytes)[place % MOST_SEGMENTS])
        crc = crc32(headers, prefix)
        if shift is None:
            return crc ^ constant == icrc
        a, b, c, d = shift
        return a[crc & 0xFF] ^ b[crc >> 8 & 0xFF] ^ c[crc >> 16 & 0xFF] ^ d[crc >> 24] ^ constant == icrc

    def is_train(self, words: U32Array, icrcs: U32Array, datagram_bytes: int) -> bool:
        """Whether the packets that came with an intact one differ from it as those of a train do: PSN, ID and ICRC.

        Args:
            words: headers of all, little-endian, shape (n, 8).
            icrcs: of all, as received, shape (n,).
            datagram_bytes: of each, BTH … ICRC.
        """
        count, (low,) = len(words), _LOW_PSN.unpack(words[0, 2])
        end = low + count
        if count > MOST_SEGMENTS or end > len(BIG_ENDIAN):
            return False
        difference = words ^ words[0]
        difference[:, 2] ^= BIG_ENDIAN[low:end] ^ BIG_ENDIAN[low]
        if difference.any():
            return False
        changes = psn_changes(datagram_bytes)[low:end]
        expected = changes ^ (icrcs[0] ^ changes[0])
        if self._framing.path.is_v4:
            expected ^= ip_id_changes(datagram_bytes)[:count]
        return bool((expected == icrcs).all())

    def ack(self, psn: int, aeth: int) -> bytes:
        """An ACK or NAK; `aeth`: syndrome and MSN."""
        header = ACK.pack(_ACK, 0, P_KEY, self._framing.dest_qp, psn, aeth)
        return header + ICRC.pack(crc32(header, self._ack[0]) ^ self._ack[1])

    def is_ack(self, headers: Buffer, *, icrc: int) -> bool:
        """Whether these 16 bytes of an ACK, FECN and BECN 0, fit the ICRC."""
        return crc32(headers, self._ack[0]) ^ self._ack[1] == icrc

    def _turn_to(self, size: int) -> _Shape:
        """Shape of a WRITE; that of the size before is at hand, for most have the same."""
        shape = self._writes.get(size)
        if shape is None:
            shape = self._writes[size] = self._make(Opcode.RC_WRITE_ONLY_IMM, WRITE.size, size)
        self._size, self._shape = size, shape
        return shape

    def _make(self, opcode: int, header_bytes: int, size: int) -> _Shape:
        """CRC is affine: what one packet's ICRC differs by from the look-ups' result, they all do."""
        framing, flags = self._framing, (-size & 3) << 4
        datagram = framing.datagram(header_bytes, size)
        end = len(datagram) - ICRC.size
        header = _BTH_WORDS.pack(opcode, flags, P_KEY, framing.dest_qp, 0).ljust(header_bytes, b"\0")
        masked = bytearray(header)
        masked[4] = 0xFF
        prefix = framing.prefix(len(datagram))
        shift = shifts(end - header_bytes) if size else None
        crc = crc32(header, prefix)
        if shift is not None:
            crc = shift[0][crc & 0xFF] ^ shift[1][crc >> 8 & 0xFF] ^ shift[2][crc >> 16 & 0xFF] ^ shift[3][crc >> 24]
        constant = framing.icrc(masked, 0, size) ^ crc
        return prefix, constant, shift, flags, datagram, memoryview(datagram)[:header_bytes], end
