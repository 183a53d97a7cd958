"""Frames of a pcap file (IETF draft-ietf-opsawg-pcap): both byte orders, times in microseconds or nanoseconds."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from emulator.annexes.bench_kit.audit.link import CapturedFrame
from emulator.annexes.bench_kit.audit.stream import ByteStream, Damaged
from emulator.units import NS_PER_S

LARGEST_FRAME = 1 << 18
"""Bytes of the longest frame. libpcap has the same limit: a longer record is damage, not data."""

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
        number = 0
        while header := take(size):
            seconds, fraction, captured, _ = unpack(header)
            if captured > LARGEST_FRAME:
                raise Damaged(f"a record of {captured:,} bytes; the format allows {LARGEST_FRAME:,}")
            number += 1
            time_ns = seconds * NS_PER_S + fraction * self._unit_ns
            yield CapturedFrame(number, time_ns, self._link_type, self._stream.take(captured))
