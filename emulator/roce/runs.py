"""Packets as bytes: lone ones by struct, runs of MIDDLE packets as one numpy operation over a buffer the kernel cuts.

The payload of packet k of a message is slot k of a block that both ends know (constant bytes, or random ones from a
seed), so its CRC is known and a receiver can verify what comes. A staging buffer holds the slots with room for headers
between them: to send a run is to write 16 bytes per packet and to hand over a slice.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from emulator.roce.constants import BTH_BYTES, ICRC_BYTES
from emulator.roce.gf2 import U32Array, shift_table
from emulator.roce.headers import Buffer
from emulator.roce.icrc import IcrcTemplate, RunIcrc, UdpPath, recover_ip_id
from emulator.roce.opcodes import Opcode
from emulator.roce.psn import Psn, add

CONSTANT_BYTE = 0x5A
BTH = struct.Struct(">BBHII")
FIRST = struct.Struct(">BBHIIQII")
"""BTH and RETH."""
LAST_IMM = struct.Struct(">BBHIII")
"""BTH and immediate data."""
ICRC = struct.Struct("<I")
ACK_REQUEST = 1 << 31
LARGEST_CALL_BYTES = 65_507
MOST_SEGMENTS = 64
_ACK_REQUEST_FIRST_BYTE = 0x80  # of a big-endian word that is read as a little-endian one
BIG_ENDIAN: U32Array = np.arange(1 << 16, dtype=">u4").view("<u4")
"""PSNs 0 … 65,535 as they stand in a header, read as little-endian words."""
_MASK = 0xFF000000  # of the BTH word with FECN, BECN and the queue pair: the ICRC takes its first byte as ones
CALLS = 6
"""Full calls that the payload's slots fill, and that go in a turn to a rank of the same process: fewer cost operations,
more the nearness of a core's cache."""
STAGED_CALLS = 12
"""Full calls whose headers are written at once, where every slot has the same payload."""
LEAST_COMPACT_BYTES, COMPACT_CALLS = 4096, 69
"""Path MTU from which on constant payload stands once for all packets; full calls that there is then room for."""
P_KEY = 0xFFFF
KNOWN_TRAINS = 64
"""Lengths of packets that travel in trains, of 64 KB each, for which room is kept."""

Pieces: TypeAlias = Sequence[Buffer]
"""What one sendmsg gathers into a packet."""
Shifts: TypeAlias = tuple[tuple[int, ...], ...]
"""What appending zero bytes does to a CRC: four tables, for its bytes from the lowest."""


class Payload:
    """What messages are filled with: slot k of `path_mtu` bytes for packet k, beginning again after the last slot.

    Args:
        seed: of random bytes; None: the constant.
        call_bytes: of packets that one call carries, at most, but at least one packet; 0: as many as the kernel takes.
    """

    def __init__(self, *, path_mtu: int, seed: int | None = None, call_bytes: int = 0) -> None:
        self.path_mtu, self.is_constant = path_mtu, seed is None
        most_bytes = min(call_bytes or LARGEST_CALL_BYTES, LARGEST_CALL_BYTES)
        self.per_call = max(1, min(MOST_SEGMENTS, most_bytes // (BTH_BYTES + path_mtu + ICRC_BYTES)))
        """MIDDLE packets that one call carries."""
        self.slots = self.per_call * CALLS
        self._datagrams: dict[tuple[int, int], bytearray] = {}
        self._trains: dict[tuple[int, int], Train] = {}
        self._most_bytes = most_bytes
        size = self.slots * path_mtu
        self.block = bytes([CONSTANT_BYTE]) * size if seed is None else np.random.default_rng(seed).bytes(size)
        self._view = memoryview(self.block)
        self.rows = np.frombuffer(self.block, np.uint8).reshape(self.slots, path_mtu)
        self.slot_crcs = np.array([zlib.crc32(row.tobytes()) for row in self.rows], np.uint32)
        self._crcs: dict[tuple[int, int], int] = {}

    def slot(self, packet: int) -> int:
        """The slot of packet number `packet` of a message; of constant bytes any would do."""
        return 0 if self.is_constant else packet % self.slots

    def take(self, slot: int, size: int) -> memoryview:
        """The first `size` bytes of a slot."""
        start = slot * self.path_mtu
        return self._view[start : start + size]

    def has(self, content: bytes) -> bool:
        """Whether any slot begins with these bytes."""
        return bool((self.rows[:, : len(content)] == np.frombuffer(content, np.uint8)).all(axis=1).any())

    def datagram(self, header_bytes: int, size: int) -> bytearray:
        """Room for headers, the first `size` bytes of the first slot and their pad, room for an ICRC.

        One object for all that send it: whatever is at hand is near a core.
        """
        key = header_bytes, size
        datagram = self._datagrams.get(key)
        if datagram is None:
            body = bytes(self.take(0, size)).ljust(size + (-size & 3) + ICRC_BYTES, b"\0")
            datagram = self._datagrams[key] = bytearray(header_bytes) + body
        return datagram

    def train(self, header_bytes: int, size: int) -> Train:
        """Room for as many such datagrams on end as one call carries; one object for all, as above."""
        key = header_bytes, size
        train = self._trains.get(key)
        if train is None:
            if len(self._trains) >= KNOWN_TRAINS:
                self._trains.clear()
            train = self._trains[key] = Train(self.datagram(header_bytes, size), header_bytes, self._most_bytes)
        return train

    def crc(self, slot: int, size: int) -> int:
        """CRC of the first `size` bytes of a slot and their pad."""
        key = (0 if self.is_constant else slot, size)
        crc = self._crcs.get(key)
        if crc is None:
            if len(self._crcs) > 1 << 16:
                self._crcs.clear()
            crc = self._crcs[key] = zlib.crc32(bytes(-size % 4), zlib.crc32(self.take(slot, size)))
        return crc


class Train:
    """Datagrams of one length on end, all with the same payload, for one call that the kernel cuts.

    Args:
        datagram: of which each is a copy.
        header_bytes: how long its headers are.
        most_bytes: that a call may have.
    """

    def __init__(self, datagram: bytearray, header_bytes: int, most_bytes: int) -> None:
        self.stride = len(datagram)
        self.packets = max(1, min(MOST_SEGMENTS, most_bytes // self.stride))
        """That there is room for."""
        self.buffer = bytearray(datagram) * self.packets
        view, count = memoryview(self.buffer), self.packets
        self.header = view[:header_bytes]
        """Of the first."""
        self.words: U32Array = np.ndarray((count, header_bytes // 4), "<u4", self.buffer, 0, (self.stride, 4))
        """Headers of all, little-endian, shape (packets, words)."""
        self.icrcs: U32Array = np.ndarray((count,), "<u4", self.buffer, self.stride - ICRC_BYTES, (self.stride,))
        self.calls = [view[: end * self.stride] for end in range(count + 1)]
        """So many packets."""


class Staging:
    """The packets of a run as the kernel reads them; all flows of a process share it.

    A packet is a slot: a MIDDLE packet's header, payload, ICRC. Where packets are large and all have the same payload,
    that stands here once: what is read for every packet then stays in the core's first cache, and leaves room in the
    others. Where they are small, the kernel's work for every piece would cost more than that saves.
    """

    def __init__(self, payload: Payload) -> None:
        self.payload = payload
        self.is_compact = payload.is_constant and payload.path_mtu >= LEAST_COMPACT_BYTES
        """Whether the slots have headers and ICRCs alone, and `content` is the payload of all."""
        self.stride = BTH_BYTES + payload.path_mtu + ICRC_BYTES
        """Bytes of a packet."""
        self.step = step = BTH_BYTES + ICRC_BYTES if self.is_compact else self.stride
        """From a slot to the next, bytes."""
        calls = COMPACT_CALLS if self.is_compact else STAGED_CALLS if payload.is_constant else CALLS
        self.slots = slots = payload.per_call * calls
        buffer, content = bytearray(slots * step), bytearray(payload.take(0, payload.path_mtu))
        self.buffer, self.content = memoryview(buffer), memoryview(content)
        if not self.is_compact:
            np.frombuffer(buffer, np.uint8).reshape(slots, step)[:, BTH_BYTES:-ICRC_BYTES] = (
                payload.rows[:1] if payload.is_constant else payload.rows
            )
        self.starts = np.ndarray((slots,), "<u8", buffer, 0, (step,))
        self.psns: U32Array = np.ndarray((slots,), "<u4", buffer, 8, (step,))
        self.icrcs: U32Array = np.ndarray((slots,), "<u4", buffer, step - ICRC_BYTES, (step,))
        self.written = 0
        """How often anything was written to it."""
        self.owner: object = None
        """Whose headers the slots carry, but for what differs from packet to packet."""
        self.last_slot = -1
        """The one that is a LAST packet among MIDDLE ones; -1: none is."""
        self.ip_ids = np.arange(slots, dtype=np.uint32) % np.uint32(payload.per_call)

    def pieces(self, slot: int, count: int) -> Pieces:
        """`count` packets from `slot` on."""
        step, view = self.step, self.buffer
        if not self.is_compact:
            return (view[slot * step : (slot + count) * step],)
        pieces: list[memoryview] = []
        for start in range(slot * step, (slot + count) * step, step):
            pieces += (view[start : start + BTH_BYTES], self.content, view[start + BTH_BYTES : start + step])
        return pieces


class Framing:
    """Makes and checks packets of one path to one queue pair."""

    def __init__(self, path: UdpPath, dest_qp: int, staging: Staging) -> None:
        self.path, self.dest_qp = path, dest_qp
        self.staging, self._payload = staging, staging.payload
        self._prefixes: dict[int, int] = {}  # UDP payload bytes → CRC of what comes before the BTH
        self._shapes: dict[tuple[int, int], tuple[int, Shifts, int]] = {}  # see _make_shape
        self._runs: dict[int, _MiddleRuns] = {}

    def lone(
        self, opcode: int, psn: int, extension: bytes, *, slot: int = 0, size: int = 0, ack_request: bool = False
    ) -> Pieces:
        """One packet with `size` bytes of the slot as payload; its IP ID must be 0."""
        flags = (-size & 3) << 4
        word = ACK_REQUEST | psn if ack_request else psn
        masked = BTH.pack(opcode, flags, P_KEY, _MASK | self.dest_qp, word) + extension
        tail = ICRC.pack(self.icrc(masked, slot, size))
        header = BTH.pack(opcode, flags, P_KEY, self.dest_qp, word) + extension
        if not size:
            return (header + tail,)
        return header, self._payload.take(slot, size), bytes(-size & 3) + tail if size & 3 else tail

    def first(self, psn: int, *, address: int, rkey: int, size: int, ack_request: bool) -> bytes:
        """The FIRST packet of a WRITE of `size` bytes; its IP ID must be 0, as that of a LAST one."""
        word = ACK_REQUEST | psn if ack_request else psn
        header = FIRST.pack(_FIRST, 0, P_KEY, self.dest_qp, word, address, rkey, size)
        mtu = self._payload.path_mtu
        return b"".join((header, self._payload.take(0, mtu), ICRC.pack(self._edge_icrc(header, 0, mtu))))

    def last(self, psn: int, *, slot: int, size: int, imm: int | None) -> bytes:
        """The LAST packet of a WRITE, `size` bytes of the slot, perhaps with immediate data; asks for an answer."""
        flags, word = (-size & 3) << 4, ACK_REQUEST | psn
        if imm is None:
            header = BTH.pack(_LAST, flags, P_KEY, self.dest_qp, word)
        else:
            header = LAST_IMM.pack(_LAST_WITH_IMM, flags, P_KEY, self.dest_qp, word, imm)
        tail = bytes(-size & 3) + ICRC.pack(self._edge_icrc(header, slot, size))
        return b"".join((header, self._payload.take(slot, size), tail))

    def is_edge(self, header: Buffer, *, slot: int, size: int, icrc: int) -> bool:
        """Whether this header of a FIRST or LAST packet, FECN and BECN 0, and that much of the slot have this ICRC."""
        return self._edge_icrc(header, slot, size) == icrc

    def notification(self, opcode: int, content: bytes) -> Pieces:
        """A packet with BECN set whose content is not from a slot: a CNP."""
        masked = BTH.pack(opcode, 0, P_KEY, _MASK | self.dest_qp, 0) + content
        header = BTH.pack(opcode, 0, P_KEY, 1 << 30 | self.dest_qp, 0)
        return (header + content + ICRC.pack(self.icrc(masked, 0, 0)),)

    def middles(
        self, opcode: int, psn: Psn, slot: int, count: int, ack_request: bool, ends: bool = False, *, are_cut: bool
    ) -> None:
        """Write `count` MIDDLE packets to the staging buffer from `slot` on (not beyond its end).

        Args:
            are_cut: the kernel will cut calls of `Payload.per_call` packets, which numbers the IP IDs of each from 0;
                else every packet is sent alone with ID 0.
            ends: the last one is the message's LAST, full and without immediate data: as long as the others.
        """
        staging, end = self.staging, slot + count
        staging.written += 1
        runs = self._runs.get(opcode) or self._make_runs(opcode)
        if staging.owner is not runs:
            staging.starts[:] = runs.start
            staging.owner = runs
        elif staging.last_slot >= 0:
            staging.starts[staging.last_slot] = runs.start
        staging.last_slot = -1
        low = psn & 0xFFFF
        until_carry = (1 << 16) - low
        if count <= until_carry:
            runs.write(psn, slot, end, 0, are_cut=are_cut)
        else:
            runs.write(psn, slot, slot + until_carry, 0, are_cut=are_cut)
            runs.write(add(psn, until_carry), slot + until_carry, end, until_carry, are_cut=are_cut)
        if ack_request:
            staging.psns[end - 1] |= _ACK_REQUEST_FIRST_BYTE
            staging.icrcs[end - 1] ^= runs.ack_change
        if ends:
            staging.starts[end - 1] = runs.last_start
            staging.icrcs[end - 1] ^= runs.last_change
            staging.last_slot = end - 1

    def is_as_sent(self, packet: memoryview, *, header_bytes: int, slot: int, size: int) -> bool:
        """Whether a lone packet's ICRC is right for IP ID 0 and the slot's payload, which is not looked at.

        Args:
            packet: BTH … ICRC.
            header_bytes: BTH and extension headers.
        """
        masked = bytearray(packet[:header_bytes])
        masked[4] = 0xFF
        (received,) = ICRC.unpack_from(packet, len(packet) - ICRC_BYTES)
        return bool(self.icrc(masked, slot, size) == received)

    def is_intact_in_full(self, packet: memoryview) -> bool:
        """Whether a packet's ICRC is right for some IP ID, whatever its payload."""
        (received,) = ICRC.unpack_from(packet, len(packet) - ICRC_BYTES)
        return recover_ip_id(self.path, packet[:-ICRC_BYTES], received) is not None

    def datagram(self, header_bytes: int, size: int) -> bytearray:
        """See Payload."""
        return self._payload.datagram(header_bytes, size)

    def train(self, header_bytes: int, size: int) -> Train:
        """See Payload."""
        return self._payload.train(header_bytes, size)

    def prefix(self, length: int) -> int:
        """CRC of what comes before the BTH of a UDP payload of `length` bytes."""
        prefix = self._prefixes.get(length)
        if prefix is None:
            prefix = self._prefixes[length] = zlib.crc32(self.path.masked_headers(length))
        return prefix

    def icrc(self, masked: Buffer, slot: int, size: int) -> int:
        """ICRC of a packet with IP ID 0: its headers, byte 4 masked, then `size` bytes of the slot and their pad."""
        padded = size + (-size & 3)
        crc = zlib.crc32(masked, self.prefix(len(masked) + padded + ICRC_BYTES))
        if not size:
            return crc
        a, b, c, d = shifts(padded)
        shifted = a[crc & 0xFF] ^ b[crc >> 8 & 0xFF] ^ c[crc >> 16 & 0xFF] ^ d[crc >> 24]
        return shifted ^ self._payload.crc(slot, size)

    def _edge_icrc(self, header: Buffer, slot: int, size: int) -> int:
        """ICRC of a header that is not masked, FECN and BECN 0, and `size` bytes of the slot with their pad."""
        key = len(header), size
        prefix, (a, b, c, d), constant = self._shapes.get(key) or self._make_shape(*key)
        crc = zlib.crc32(header, prefix)
        shifted = a[crc & 0xFF] ^ b[crc >> 8 & 0xFF] ^ c[crc >> 16 & 0xFF] ^ d[crc >> 24]
        return shifted ^ constant ^ self._payload.crc(slot, size)

    def _make_shape(self, header_bytes: int, size: int) -> tuple[int, Shifts, int]:
        """CRC of what precedes a header, what appending the payload does, and what masking byte 4 changes."""
        padded = size + (-size & 3)
        prefix, shift = self.prefix(header_bytes + padded + ICRC_BYTES), shifts(padded)
        header = bytes(header_bytes)
        (a, b, c, d), crc = shift, zlib.crc32(header, prefix)
        shifted = a[crc & 0xFF] ^ b[crc >> 8 & 0xFF] ^ c[crc >> 16 & 0xFF] ^ d[crc >> 24]
        masked = header[:4] + b"\xff" + header[5:]
        shape = self._shapes[header_bytes, size] = (
            prefix,
            shift,
            self.icrc(masked, 0, size) ^ self._payload.crc(0, size) ^ shifted,
        )
        return shape

    def _make_runs(self, opcode: int) -> _MiddleRuns:
        headers = BTH.pack(opcode, 0, P_KEY, self.dest_qp, 0)
        made = self._runs[opcode] = _MiddleRuns(self.path, headers, self.staging)
        return made


class _MiddleRuns:
    """What the runs of one flow have in common, and what does not depend on their PSN's lower 16 bits."""

    __slots__ = ("_constants", "_icrc", "_staging", "ack_change", "last_change", "last_start", "start")

    def __init__(self, path: UdpPath, headers: bytes, staging: Staging) -> None:
        self._staging, payload = staging, staging.payload
        crc = int(payload.slot_crcs[0]) if payload.is_constant else 0
        self._icrc = RunIcrc(IcrcTemplate(path, headers, payload.path_mtu, crc))
        self._constants: dict[bool, tuple[int, U32Array]] = {}
        self.ack_change = self._icrc.change(8, 0x80)
        self.start = int.from_bytes(headers[:8], "little")
        self.last_change = self._icrc.change(0, headers[0] ^ _LAST)
        self.last_start = int.from_bytes(bytes([_LAST]) + headers[1:8], "little")

    def write(self, psn: int, slot: int, end: int, index: int, *, are_cut: bool) -> None:
        """PSNs and ICRCs of the slots, whose first packet has that index in its run; the lower 16 bits do not carry."""
        staging, low, high, stop = self._staging, psn & 0xFFFF, psn >> 16, index + end - slot
        known = self._constants.get(are_cut)
        if known is None or known[0] != high:
            ip_ids = staging.ip_ids if are_cut else np.zeros_like(staging.ip_ids)
            known = self._constants[are_cut] = high, self._icrc.constants(high, ip_ids)
        icrcs = staging.icrcs[slot:end]
        self._icrc.write(low, known[1][index:stop], icrcs)
        if not staging.payload.is_constant:
            icrcs ^= staging.payload.slot_crcs[slot:end]
        np.bitwise_or(BIG_ENDIAN[low : low + end - slot], high << 8, out=staging.psns[slot:end])


@lru_cache(maxsize=4096)
def shifts(size: int) -> Shifts:
    """What appending `size` zero bytes does."""
    return tuple(tuple(row) for row in shift_table(size).tables.tolist())


class Inspection:
    """Looks at a received buffer of equal packets on end, without a step per packet.

    Args:
        buffer: where datagrams are received; it stays the same.
    """

    def __init__(self, buffer: bytearray) -> None:
        self._buffer = buffer
        self._columns: dict[int, npt.NDArray[np.void]] = {}
        self._train_stride = 0
        self._train_words: U32Array
        self._train_icrcs: U32Array

    def headers(self, stride: int) -> npt.NDArray[np.void]:
        """The BTHs of all packets that there is room for."""
        column = self._columns.get(stride)
        if column is None:
            most = len(self._buffer) // stride
            column = self._columns[stride] = np.ndarray((most,), f"V{BTH_BYTES}", self._buffer, 0, (stride,))
        return column

    def rows(self, stride: int, count: int) -> npt.NDArray[np.uint8]:
        """The first `count` packets, uint8, shape (count, stride)."""
        return np.frombuffer(self._buffer, np.uint8, count * stride).reshape(count, stride)

    def train(self, stride: int, count: int) -> tuple[U32Array, U32Array]:
        """Of the first `count` packets: their first 32 bytes as little-endian words, shape (count, 8), and ICRCs."""
        if self._train_stride != stride:
            most = len(self._buffer) // stride
            self._train_words = np.ndarray((most, 8), "<u4", self._buffer, 0, (stride, 4))
            self._train_icrcs = np.ndarray((most,), "<u4", self._buffer, stride - ICRC_BYTES, (stride,))
            self._train_stride = stride
        return self._train_words[:count], self._train_icrcs[:count]


PREDICTED = 1024
"""Headers predicted at a time."""


class Prediction:
    """The headers that MIDDLE packets of one flow have when nothing happened to them."""

    __slots__ = ("_bytes", "_first", "_packets", "_table")

    def __init__(self, *, opcode: int, dest_qp: int) -> None:
        start = np.frombuffer(BTH.pack(opcode, 0, P_KEY, dest_qp, 0), "<u4")
        self._table = np.tile(start, (PREDICTED, 1))
        self._first = self._packets = 0
        self._bytes = b""

    def headers(self, psn: Psn, count: int) -> bytes:
        """BTHs of `count` packets from `psn` on; fewer at the wrap, where nothing is predicted."""
        skipped = psn - self._first
        if not 0 <= skipped <= self._packets - count:
            self._predict(psn)
            skipped = 0
        start = skipped * BTH_BYTES
        return self._bytes[start : start + count * BTH_BYTES]

    def _predict(self, psn: Psn) -> None:
        low, high = psn & 0xFFFF, psn >> 16
        until_carry = min(PREDICTED, (1 << 16) - low)
        psns = self._table[:, 2]
        np.bitwise_or(BIG_ENDIAN[low : low + until_carry], high << 8, out=psns[:until_carry])
        count = PREDICTED if high < 0xFF else until_carry
        if until_carry < count:
            np.bitwise_or(BIG_ENDIAN[: count - until_carry], high + 1 << 8, out=psns[until_carry:])
        self._first, self._packets, self._bytes = psn, count, self._table[:count].tobytes()


def without_ack_requests(headers: bytes) -> bytes:
    """BTHs on end, none of which asks for an acknowledgement."""
    masked = bytearray(headers)
    masked[8::BTH_BYTES] = masked[8::BTH_BYTES].translate(_NOT_ASKING)
    return bytes(masked)


_FIRST, _LAST = int(Opcode.RC_WRITE_FIRST), int(Opcode.RC_WRITE_LAST)
_LAST_WITH_IMM = int(Opcode.RC_WRITE_LAST_IMM)
_NOT_ASKING = bytes(byte & 0x7F for byte in range(256))

__all__ = [
    "BTH",
    "ICRC",
    "Framing",
    "Inspection",
    "Payload",
    "Pieces",
    "Prediction",
    "Staging",
    "U32Array",
    "without_ack_requests",
]
