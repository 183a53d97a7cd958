"""pcapng files: sections, interfaces, packet blocks, times, damage; scapy as an independent reader."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from io import BufferedReader, BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.utils import RawPcapNgReader

from emulator.annexes.bench_kit.audit.link import CapturedFrame
from emulator.annexes.bench_kit.audit.pcapng import MAGIC, PcapngReader
from emulator.annexes.bench_kit.audit.stream import ByteStream, Damaged
from tests.support.roce_capture import pcapng

TIME_NS = 1_700_000_000_123_456_789
RECORDS = [(TIME_NS + index, bytes([index]) * (60 + index)) for index in range(5)]


def reader(data: bytes) -> PcapngReader:
    assert data[:4] == MAGIC
    return PcapngReader(ByteStream(BufferedReader(BytesIO(data[4:]))))


@dataclass(frozen=True)
class Blocks:
    """Writes blocks in one byte order."""

    order: str

    def pack(self, layout: str, *values: int) -> bytes:
        return struct.pack(self.order + layout, *values)

    def block(self, kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        size = self.pack("I", 12 + len(body))
        return self.pack("I", kind) + size + body + size

    def section(self) -> bytes:
        return self.block(0x0A0D0D0A, self.pack("IHHq", 0x1A2B3C4D, 1, 0, -1))

    def option(self, code: int, value: bytes) -> bytes:
        return self.pack("HH", code, len(value)) + value + bytes(-len(value) % 4)

    def interface(self, *options: bytes, link_type: int = 1, snapshot_bytes: int = 0) -> bytes:
        return self.block(1, self.pack("HHI", link_type, 0, snapshot_bytes) + b"".join(options))

    def packet(self, data: bytes, *, time: int = 5, interface: int = 0) -> bytes:
        head = self.pack("5I", interface, time >> 32, time & 0xFFFFFFFF, len(data), len(data))
        return self.block(6, head + data)


LE, BE = Blocks("<"), Blocks(">")
BOTH_ORDERS = pytest.mark.parametrize("make", [pytest.param(LE, id="little-endian"), pytest.param(BE, id="big-endian")])


@BOTH_ORDERS
def test_frames_have_the_link_type_of_their_interface(make: Blocks) -> None:
    data = make.section() + make.interface(link_type=276) + make.interface(link_type=101)
    data += make.packet(b"abcde", interface=1) + make.packet(b"", interface=0)
    assert list(reader(data)) == [CapturedFrame(1, 5000, 101, b"abcde"), CapturedFrame(2, 5000, 276, b"")]


@pytest.mark.parametrize(
    ("resolution", "time", "time_ns"),
    [
        pytest.param(None, TIME_NS // 1000, TIME_NS // 1000 * 1000, id="microseconds by default"),
        pytest.param(3, 1_700_000_000_123, 1_700_000_000_123_000_000, id="milliseconds"),
        pytest.param(9, TIME_NS, TIME_NS, id="nanoseconds"),
        pytest.param(12, 1_500, 1, id="picoseconds"),
        pytest.param(0x80 | 10, 1536, 1_500_000_000, id="1/1024 of a second"),
    ],
)
def test_the_interface_decides_the_resolution_of_times(resolution: int | None, time: int, time_ns: int) -> None:
    options = [] if resolution is None else [LE.option(9, bytes([resolution]))]
    (frame,) = reader(LE.section() + LE.interface(*options) + LE.packet(b"a", time=time))
    assert frame.time_ns == time_ns


@BOTH_ORDERS
def test_an_offset_of_the_interface_is_added_to_its_times(make: Blocks) -> None:
    offset = make.option(14, make.pack("q", -3))
    name = make.option(2, b"eth0\0")
    (frame,) = reader(make.section() + make.interface(name, offset) + make.packet(b"a", time=4_000_001))
    assert frame.time_ns == 1_000_001_000


def test_options_after_their_end_are_not_read() -> None:
    options = LE.option(0, b"") + LE.option(9, bytes([9]))
    (frame,) = reader(LE.section() + LE.interface(options) + LE.packet(b"a"))
    assert frame.time_ns == 5000


def test_blocks_of_other_kinds_are_skipped() -> None:
    statistics, own = LE.block(5, bytes(12)), LE.block(0x80000BAD, b"our own")
    assert [one.data for one in reader(pcapng(RECORDS) + statistics + own)] == [data for _, data in RECORDS]


def test_a_second_section_has_its_own_interfaces_and_byte_order() -> None:
    data = pcapng(RECORDS[:2]) + BE.section() + BE.interface(link_type=113) + BE.packet(b"abc")
    assert [(one.number, one.link_type, one.data) for one in reader(data)] == [
        (1, 1, RECORDS[0][1]),
        (2, 1, RECORDS[1][1]),
        (3, 113, b"abc"),
    ]


def test_interfaces_of_an_earlier_section_are_gone() -> None:
    frames = iter(reader(LE.section() + LE.interface() + LE.section() + LE.packet(b"a")))
    with pytest.raises(Damaged, match=r"a packet of interface 0, which the file does not describe"):
        next(frames)


def test_a_packet_of_an_unknown_interface_is_damage() -> None:
    with pytest.raises(Damaged, match=r"a packet of interface 9, which the file does not describe"):
        list(reader(LE.section() + LE.interface() + LE.packet(b"a", interface=9)))


@BOTH_ORDERS
@pytest.mark.parametrize(("snapshot_bytes", "captured"), [(0, b"abcdef"), (4, b"abcd"), (60, b"abcdef")])
def test_a_simple_packet_has_no_time_and_the_snapshot_length_of_the_interface(
    make: Blocks, snapshot_bytes: int, captured: bytes
) -> None:
    simple = make.block(3, make.pack("I", 6) + captured)
    data = make.section() + make.interface(snapshot_bytes=snapshot_bytes) + simple
    assert list(reader(data)) == [CapturedFrame(1, None, 1, captured)]


@BOTH_ORDERS
def test_the_obsolete_packet_block_is_read(make: Blocks) -> None:
    old = make.block(2, make.pack("HHIIII", 1, 77, 0, 5, 3, 3) + b"abc")
    data = make.section() + make.interface() + make.interface(link_type=113) + old
    assert list(reader(data)) == [CapturedFrame(1, 5000, 113, b"abc")]


def test_an_unknown_byte_order_is_damage() -> None:
    with pytest.raises(Damaged, match=r"byte-order magic 01020304"):
        reader(MAGIC + bytes(4) + bytes([1, 2, 3, 4]) + bytes(16))


@pytest.mark.parametrize("size", [0, 11, (1 << 24) + 1, 0xFFFFFFFF])
def test_an_impossible_block_length_is_damage(size: int) -> None:
    with pytest.raises(Damaged, match=rf"a block of {size:,} bytes"):
        list(reader(LE.section() + struct.pack("<II", 5, size)))


def test_a_packet_longer_than_its_block_is_damage() -> None:
    block = LE.block(6, LE.pack("5I", 0, 0, 5, 100, 100) + b"abcd")
    with pytest.raises(Damaged, match=r"a packet of 100 bytes in a block with 4"):
        list(reader(LE.section() + LE.interface() + block))


@pytest.mark.parametrize("kind", [1, 2, 3, 6])
def test_a_block_without_its_fields_is_damage(kind: int) -> None:
    with pytest.raises(Damaged, match="shorter than its fields"):
        list(reader(LE.section() + LE.interface() + LE.block(kind, b"")))


def test_only_files_cut_between_blocks_are_whole() -> None:
    whole = pcapng(RECORDS[:2])
    ends = {28, len(pcapng([])), len(pcapng(RECORDS[:1])), len(whole)}  # 28: after the section header
    cut = [size for size in range(28, len(whole) + 1) if not is_damaged(whole[:size])]
    assert set(cut) == ends


def is_damaged(data: bytes) -> bool:
    try:
        list(reader(data))
    except Damaged:
        return True
    return False


@given(
    order=st.sampled_from("<>"),
    interfaces=st.lists(st.tuples(st.sampled_from([1, 101, 113, 276]), st.sampled_from([3, 6, 9, 12])), min_size=1),
    packets=st.lists(st.tuples(st.integers(0), st.integers(0, 2**64 - 1), st.binary(max_size=80)), max_size=6),
)
def test_a_file_is_read_as_scapy_reads_it(
    order: str, interfaces: list[tuple[int, int]], packets: list[tuple[int, int, bytes]]
) -> None:
    make = Blocks(order)
    data = make.section()
    for link_type, resolution in interfaces:
        data += make.interface(make.option(9, bytes([resolution])), make.option(0, b""), link_type=link_type)
    for index, time, frame in packets:
        data += make.packet(frame, time=time, interface=index % len(interfaces))
    records: Any = RawPcapNgReader(BytesIO(data))
    theirs = [
        ((facts.tshigh << 32 | facts.tslow) * 10**9 // facts.tsresol, facts.linktype, frame) for frame, facts in records
    ]
    assert len(theirs) == len(packets)
    assert [(one.time_ns, one.link_type, one.data) for one in reader(data)] == theirs
