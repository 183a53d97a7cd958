"""Frames of a capture file, pcap or pcapng, and what each carries by its link type.

Sources: IETF draft-ietf-opsawg-pcap (both byte orders, times in microseconds or nanoseconds), and
draft-ietf-opsawg-pcapng (sections, their interfaces and packets).
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from typing import TypeAlias

from emulator.units import NS_PER_S

_GZIP = b"\x1f\x8b"
_READ_ERRORS = (EOFError, OSError, zlib.error)


class Damaged(Exception):
    """The file ends early or breaks its format; the text gives the reason."""


class ByteStream:
    """The bytes of a file, plain or gzip, in their order. The file need not be seekable.

    Args:
        file: opened for binary reading, with a buffer.
    """

    def __init__(self, file: BufferedReader) -> None:
        is_compressed = file.peek(len(_GZIP)).startswith(_GZIP)
        self._file = gzip.GzipFile(fileobj=file) if is_compressed else file

    def take(self, size: int) -> bytes:
        """The next `size` bytes.

        Raises:
            Damaged: fewer bytes are left.
        """
        data = self.take_unless_at_end(size)
        if len(data) < size:
            raise Damaged(_missing(size))
        return data

    def take_unless_at_end(self, size: int) -> bytes:
        """The next `size` bytes; none at the end of the file.

        Raises:
            Damaged: the file ends within these bytes.
        """
        try:
            data = self._file.read(size)
        except _READ_ERRORS as error:
            raise Damaged(str(error)) from error
        if 0 < len(data) < size:
            raise Damaged(_missing(size - len(data)))
        return data


def _missing(count: int) -> str:
    return f"{count} byte is missing" if count == 1 else f"{count} bytes are missing"


IPV4, IPV6 = 0x0800, 0x86DD
IP_TYPES = (IPV4, IPV6)
ETHERNET = 1
"""Its link type."""
Content: TypeAlias = tuple[int, int]
"""EtherType of what a frame carries, and offset of that."""

_VLAN_TAGS = (0x8100, 0x88A8, 0x9100)
_WORD = struct.Struct(">H")


@dataclass(frozen=True, slots=True)
class CapturedFrame:
    """A frame of a capture file.

    Attributes:
        number: from 1, over the whole file.
        time_ns: since the epoch; None if the file has no times.
        link_type: number of the pcap format.
        data: the frame, possibly truncated by the capture.
    """

    number: int
    time_ns: int | None
    link_type: int
    data: bytes


def _after_ethertype(data: bytes, offset: int) -> Content | None:
    """The content behind an EtherType and VLAN tags, given the offset of the EtherType."""
    while len(data) >= offset + 2:
        (ethertype,) = _WORD.unpack_from(data, offset)
        if ethertype not in _VLAN_TAGS:
            return ethertype, offset + 2
        offset += 4
    return None


def _ethernet(data: bytes) -> Content | None:
    return _after_ethertype(data, 12)


def _cooked(data: bytes) -> Content | None:
    return _after_ethertype(data, 14)


def _cooked_v2(data: bytes) -> Content | None:
    if len(data) < 20:
        return None
    (protocol,) = _WORD.unpack_from(data, 0)
    if protocol in _VLAN_TAGS:
        return _after_ethertype(data, 22)
    return protocol, 20


def _raw(data: bytes) -> Content | None:
    return IPV4, 0  # the IP version is in the packet, too


def _loopback(data: bytes) -> Content | None:
    # The address family before the packet depends on the host that captured it; the IP version suffices.
    return IPV4, 4


_LINK_TYPES: dict[int, Callable[[bytes], Content | None]] = {
    0: _loopback,
    ETHERNET: _ethernet,
    12: _raw,
    14: _raw,
    101: _raw,
    108: _loopback,
    113: _cooked,
    228: _raw,
    229: _raw,
    276: _cooked_v2,
}
"""Functions that find the content, by link type (tcpdump.org, link-layer header types)."""


def is_supported(link_type: int) -> bool:
    """Whether frames of this link type can be read."""
    return link_type in _LINK_TYPES


def content_of(link_type: int, data: bytes) -> Content | None:
    """What a frame of a supported link type carries; None if it is truncated before that."""
    return _LINK_TYPES[link_type](data)


LARGEST_FRAME = 1 << 18
"""Bytes of the longest frame. libpcap has the same limit: a longer record is damage, not data."""
MOST_EMPTY = 1000
"""Records without a byte of a frame, one after another; more are damage, too."""

_VARIANTS = {
    bytes.fromhex("a1b2c3d4"): (">", 1000),
    bytes.fromhex("d4c3b2a1"): ("<", 1000),
    bytes.fromhex("a1b23c4d"): (">", 1),
    bytes.fromhex("4d3cb2a1"): ("<", 1),
}
"""Magic number: byte order, and nanoseconds in a unit of the fraction of a second."""

_LINK_TYPE_BITS = 0xFFFF  # the upper bits describe the frame check sequence


def is_pcap(magic: bytes) -> bool:
    """Whether a file with these first four bytes is a pcap file."""
    return magic in _VARIANTS


class PcapReader:
    """The frames of a pcap file.

    Args:
        magic: the first four bytes of the file.
        stream: the rest.

    Raises:
        Damaged: the file ends early; from the constructor in its header, while iterating in a record.
    """

    def __init__(self, magic: bytes, stream: ByteStream) -> None:
        order, self._unit_ns = _VARIANTS[magic]
        self._record = struct.Struct(order + "IIII")
        header = struct.Struct(order + "HHiIII")  # version, time zone, accuracy, snapshot length, link type
        *_, link_type = header.unpack(stream.take(header.size))
        self._link_type = link_type & _LINK_TYPE_BITS
        self._stream = stream

    def __iter__(self) -> Iterator[CapturedFrame]:
        take, unpack, size = self._stream.take_unless_at_end, self._record.unpack, self._record.size
        number = empty = 0
        while header := take(size):
            seconds, fraction, captured, _ = unpack(header)
            if captured > LARGEST_FRAME:
                raise Damaged(f"a record of {captured:,} bytes; the format allows {LARGEST_FRAME:,}")
            empty = 0 if captured else empty + 1
            if empty > MOST_EMPTY:  # zeros, as a crash leaves them at the end: compressed, they are read for minutes
                raise Damaged(f"more than {MOST_EMPTY:,} records without a frame")
            number += 1
            time_ns = seconds * NS_PER_S + fraction * self._unit_ns
            yield CapturedFrame(number, time_ns, self._link_type, self._stream.take(captured))


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
