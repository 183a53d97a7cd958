"""Frames of a pcapng file (IETF draft-ietf-opsawg-pcapng): its sections, their interfaces and packets."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from emulator.annexes.bench_kit.audit.link import CapturedFrame
from emulator.annexes.bench_kit.audit.stream import ByteStream, Damaged
from emulator.units import NS_PER_S

MAGIC = bytes.fromhex("0a0d0d0a")
"""First four bytes of a pcapng file: the type of a section header, the same in both byte orders."""

_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET = 1, 2, 3, 6  # block types
_END_OF_OPTIONS, _TIME_RESOLUTION, _TIME_OFFSET = 0, 9, 14  # options of an interface
_POWER_OF_TWO = 0x80
_DEFAULT_UNITS_PER_S = 10**6
_BYTE_ORDERS = {bytes.fromhex("4d3c2b1a"): "<", bytes.fromhex("1a2b3c4d"): ">"}
_LARGEST_BLOCK = 1 << 24  # bytes; libpcap's limit, too: a longer block is damage, not data
_BLOCK_OVERHEAD = 12  # type, length, and the length again


@dataclass(frozen=True, slots=True)
class _CaptureInterface:
    """An interface of a section.

    Attributes:
        snapshot_bytes: of each frame, at most this many were captured; 0 means all.
        units_per_s: resolution of the time stamps.
        offset_ns: what to add to them.
    """

    link_type: int
    snapshot_bytes: int
    units_per_s: int
    offset_ns: int


class PcapngReader:
    """The frames of a pcapng file.

    Args:
        stream: the file after its first four bytes, `MAGIC`.

    Raises:
        Damaged: the file ends early or breaks the format; from the constructor in its header, while iterating after it.
    """

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._begin_section()

    def __iter__(self) -> Iterator[CapturedFrame]:
        number = 0
        while kind := self._stream.take_unless_at_end(4):
            if kind == MAGIC:
                self._begin_section()
                continue
            body = self._body(self._word.unpack(self._stream.take(4))[0])
            try:
                frame = self._frame(self._word.unpack(kind)[0], body, number=number + 1)
            except struct.error as error:
                raise Damaged("a block is shorter than its fields") from error
            if frame:
                number += 1
                yield frame

    def _begin_section(self) -> None:
        """Read a section header after its type. The byte order and the interfaces are a section's own."""
        head = self._stream.take(8)
        order = _BYTE_ORDERS.get(head[4:])
        if order is None:
            raise Damaged(f"a section has the byte-order magic {head[4:].hex()}")
        self._word = struct.Struct(order + "I")
        self._description = struct.Struct(order + "HxxI")  # link type, snapshot length
        self._option = struct.Struct(order + "HH")  # code, length
        self._seconds = struct.Struct(order + "q")
        self._packet = struct.Struct(order + "IIIII")  # interface, time (upper, lower), captured, original length
        self._old_packet = struct.Struct(order + "HxxIIII")  # the same; the gap counts drops
        self._interfaces: list[_CaptureInterface] = []
        self._body(self._word.unpack(head[:4])[0] - 4)  # the byte-order magic is read

    def _body(self, block_bytes: int) -> bytes:
        """The rest of a block after its type and length, without the length at its end."""
        if not _BLOCK_OVERHEAD <= block_bytes <= _LARGEST_BLOCK:
            raise Damaged(f"a block of {block_bytes:,} bytes")
        return self._stream.take(block_bytes - 8)[:-4]

    def _frame(self, kind: int, body: bytes, *, number: int) -> CapturedFrame | None:
        """The frame of a block; None if the block has none."""
        if kind == _PACKET:
            return self._timed(self._packet, body, number)
        if kind == _OLD_PACKET:
            return self._timed(self._old_packet, body, number)
        if kind == _SIMPLE_PACKET:
            return self._simple(body, number)
        if kind == _INTERFACE:
            self._interfaces.append(self._read_interface(body))
        return None

    def _timed(self, layout: struct.Struct, body: bytes, number: int) -> CapturedFrame:
        index, upper, lower, captured, _ = layout.unpack_from(body)
        interface = self._interface(index)
        time_ns = (upper << 32 | lower) * NS_PER_S // interface.units_per_s + interface.offset_ns
        return CapturedFrame(number, time_ns, interface.link_type, _cut(body, layout.size, captured))

    def _simple(self, body: bytes, number: int) -> CapturedFrame:
        """A frame without a time; its captured length is not written, but follows from the snapshot length."""
        interface = self._interface(0)
        (original,) = self._word.unpack_from(body)
        captured = min(original, interface.snapshot_bytes or original)
        return CapturedFrame(number, None, interface.link_type, _cut(body, self._word.size, captured))

    def _interface(self, index: int) -> _CaptureInterface:
        if index >= len(self._interfaces):
            raise Damaged(f"a packet of interface {index}, which the file does not describe")
        return self._interfaces[index]

    def _read_interface(self, body: bytes) -> _CaptureInterface:
        link_type, snapshot_bytes = self._description.unpack_from(body)
        units_per_s, offset_ns = _DEFAULT_UNITS_PER_S, 0
        for code, value in self._options(body, self._description.size):
            if code == _TIME_RESOLUTION:
                units_per_s = _units_per_s(value)
            elif code == _TIME_OFFSET:
                offset_ns = self._seconds.unpack_from(value)[0] * NS_PER_S
        return _CaptureInterface(link_type, snapshot_bytes, units_per_s, offset_ns)

    def _options(self, body: bytes, at: int) -> Iterator[tuple[int, bytes]]:
        while at + self._option.size <= len(body):
            code, length = self._option.unpack_from(body, at)
            if code == _END_OF_OPTIONS:
                return
            at += self._option.size
            yield code, body[at : at + length]
            at += length + -length % 4


def _units_per_s(value: bytes) -> int:
    """The resolution that an option states: a negative power of ten, or of two if the upper bit is set."""
    (power,) = struct.unpack_from("B", value)
    return int(2 ** (power & ~_POWER_OF_TWO) if power & _POWER_OF_TWO else 10**power)


def _cut(body: bytes, start: int, size: int) -> bytes:
    if len(body) < start + size:
        raise Damaged(f"a packet of {size:,} bytes in a block with {len(body) - start:,}")
    return body[start : start + size]
