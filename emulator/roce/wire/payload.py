"""What messages are filled with, and buffers that hold it with room for headers.

The payload of packet k of a message is slot k of a block that both ends know: constant bytes, or random ones from a
seed. So its CRC is known before it is sent, and a receiver can verify what arrives.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from emulator.roce.constants import BTH_BYTES, ICRC_BYTES
from emulator.roce.tuning import (
    CALLS_PER_TURN,
    COMPACT_CALLS,
    KNOWN_GSO_LENGTHS,
    LARGEST_CALL_BYTES,
    LEAST_COMPACT_BYTES,
    MOST_SEGMENTS,
    STAGED_CALLS,
)
from emulator.roce.wire.headers import Buffer
from emulator.roce.wire.runs import PacketColumns, numbered_calls

CONSTANT_BYTE = 0x5A

Pieces: TypeAlias = Sequence[Buffer]
"""What one sendmsg gathers into a packet, or into a call that the kernel cuts."""


class Payload:
    """Slots of `path_mtu` bytes: slot k for packet k of a message, beginning again after the last slot.

    Args:
        path_mtu: payload of a full packet, bytes.
        seed: of random bytes; None: the constant.
        call_bytes: packets of one call, bytes, at most, but at least one packet; 0: as many as the kernel takes.
    """

    def __init__(self, *, path_mtu: int, seed: int | None = None, call_bytes: int = 0) -> None:
        self.path_mtu, self.is_constant = path_mtu, seed is None
        self._most_bytes = min(call_bytes or LARGEST_CALL_BYTES, LARGEST_CALL_BYTES)
        self.packet_bytes = BTH_BYTES + path_mtu + ICRC_BYTES
        """A full MIDDLE packet, BTH … ICRC."""
        self.per_call = max(1, min(MOST_SEGMENTS, self._most_bytes // self.packet_bytes))
        """MIDDLE packets that one call carries."""
        self.slots = self.per_call * CALLS_PER_TURN
        size = self.slots * path_mtu
        self.block = bytes([CONSTANT_BYTE]) * size if seed is None else np.random.default_rng(seed).bytes(size)
        self._view = memoryview(self.block)
        self.rows = np.frombuffer(self.block, np.uint8).reshape(self.slots, path_mtu)
        self.slot_crcs = np.array([zlib.crc32(row.tobytes()) for row in self.rows], np.uint32)
        self._crcs: dict[tuple[int, int], int] = {}
        self._datagrams: dict[tuple[int, int], bytearray] = {}
        self._batches: dict[tuple[int, int], GsoBatch] = {}

    def slot(self, packet: int) -> int:
        """The slot of packet number `packet` of a message; constant bytes need only the first."""
        return 0 if self.is_constant else packet % self.slots

    def take(self, slot: int, size: int) -> memoryview:
        """The first `size` bytes of a slot."""
        start = slot * self.path_mtu
        return self._view[start : start + size]

    def has(self, content: bytes) -> bool:
        """Whether any slot begins with these bytes."""
        return bool((self.rows[:, : len(content)] == np.frombuffer(content, np.uint8)).all(axis=1).any())

    def crc(self, slot: int, size: int) -> int:
        """CRC-32 of the first `size` bytes of a slot and their pad."""
        key = (0 if self.is_constant else slot, size)
        crc = self._crcs.get(key)
        if crc is None:
            if len(self._crcs) > 1 << 16:
                self._crcs.clear()
            crc = self._crcs[key] = zlib.crc32(bytes(-size % 4), zlib.crc32(self.take(slot, size)))
        return crc

    def datagram(self, header_bytes: int, size: int) -> bytearray:
        """Room for headers, the first `size` bytes of slot 0 and their pad, room for an ICRC.

        All flows share one buffer per length: it is in the core's cache when the next one is sent.
        """
        key = header_bytes, size
        datagram = self._datagrams.get(key)
        if datagram is None:
            body = bytes(self.take(0, size)).ljust(size + (-size & 3) + ICRC_BYTES, b"\0")
            datagram = self._datagrams[key] = bytearray(header_bytes) + body
        return datagram

    def batch(self, header_bytes: int, size: int) -> GsoBatch:
        """Room for as many of these datagrams as one call carries, back to back; shared like `datagram`."""
        key = header_bytes, size
        batch = self._batches.get(key)
        if batch is None:
            if len(self._batches) >= KNOWN_GSO_LENGTHS:
                self._batches.clear()
            batch = self._batches[key] = GsoBatch(self.datagram(header_bytes, size), header_bytes, self._most_bytes)
        return batch


class GsoBatch:
    """Datagrams of one length and one payload back to back, for one call that the kernel cuts.

    Args:
        datagram: each is a copy of it.
        header_bytes: length of its headers.
        most_bytes: of the call.
    """

    def __init__(self, datagram: bytearray, header_bytes: int, most_bytes: int) -> None:
        self.packet_bytes = len(datagram)
        self.packets = max(1, min(MOST_SEGMENTS, most_bytes // self.packet_bytes))
        """How many there is room for."""
        buffer = bytearray(datagram) * self.packets
        self.columns = PacketColumns(buffer, self.packets, stride=self.packet_bytes, header_bytes=header_bytes)
        view = memoryview(buffer)
        self.calls = [view[: count * self.packet_bytes] for count in range(self.packets + 1)]
        """`calls[n]`: the first n packets."""


class Staging:
    """The MIDDLE packets of a run as the kernel reads them; all flows of a process share it.

    A slot has a packet's header, payload and ICRC. If packets are large and all have the same payload, the payload
    stands here once (compact): the kernel then reads it from the core's first cache for every packet. If packets are
    small, the kernel's work for every piece would cost more than that saves.
    """

    def __init__(self, payload: Payload) -> None:
        self.payload = payload
        self.is_compact = payload.is_constant and payload.path_mtu >= LEAST_COMPACT_BYTES
        """Whether slots have headers and ICRCs alone, and `content` is the payload of all."""
        self.packet_bytes = payload.packet_bytes
        self.step = step = BTH_BYTES + ICRC_BYTES if self.is_compact else self.packet_bytes
        """From one slot to the next, bytes."""
        calls = COMPACT_CALLS if self.is_compact else STAGED_CALLS if payload.is_constant else CALLS_PER_TURN
        self.slots = slots = payload.per_call * calls
        buffer, content = bytearray(slots * step), bytearray(payload.take(0, payload.path_mtu))
        self.buffer, self.content = memoryview(buffer), memoryview(content)
        if not self.is_compact:
            np.frombuffer(buffer, np.uint8).reshape(slots, step)[:, BTH_BYTES:-ICRC_BYTES] = (
                payload.rows[:1] if payload.is_constant else payload.rows
            )
        self.columns = PacketColumns(buffer, slots, stride=step, header_bytes=BTH_BYTES)
        self.numbered = numbered_calls(self.packet_bytes, payload.per_call, slots)
        """What IP IDs change in the ICRCs of IPv4 packets if the kernel cuts calls of them."""
        self.version = 0
        """Grows with every write: after others have sent, it shows whether prepared packets are still there."""

    def pieces(self, slot: int, count: int) -> Pieces:
        """`count` packets from `slot` on."""
        step, view = self.step, self.buffer
        if not self.is_compact:
            return (view[slot * step : (slot + count) * step],)
        pieces: list[memoryview] = []
        for start in range(slot * step, (slot + count) * step, step):
            pieces += (view[start : start + BTH_BYTES], self.content, view[start + BTH_BYTES : start + step])
        return pieces
