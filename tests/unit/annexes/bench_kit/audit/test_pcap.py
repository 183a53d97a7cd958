"""pcap files: byte orders, resolutions, damage; scapy as an independent writer and reader."""

import dataclasses
import gzip
import struct
from collections.abc import Callable
from dataclasses import dataclass
from io import BufferedReader, BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.utils import RawPcapNgReader, RawPcapReader, RawPcapWriter

from emulator.annexes.bench_kit.audit.pcap import (
    LARGEST_FRAME,
    MAGIC,
    ByteStream,
    CapturedFrame,
    Damaged,
    PcapngReader,
    PcapReader,
    content_of,
    is_pcap,
    is_supported,
)
from tests.support.roce_capture import ETHERNET_BYTES, MTU, audit_frames, conversation, pcap, pcapng

DATA = bytes(range(256)) * 2000


def stream_of(data: bytes) -> ByteStream:
    return ByteStream(BufferedReader(BytesIO(data)))


@pytest.mark.parametrize("file", [DATA, gzip.compress(DATA, mtime=0)], ids=["plain", "gzip"])
def test_pieces_follow_each_other(file: bytes) -> None:
    stream = stream_of(file)
    sizes = (1, 0, 7, 300_000, len(DATA) - 300_008)
    assert b"".join(map(stream.take, sizes)) == DATA
    assert stream.take_unless_at_end(5) == b""


def test_a_file_of_several_gzip_members_is_one_stream() -> None:
    stream = stream_of(gzip.compress(DATA[:1000]) + gzip.compress(DATA[1000:]))
    assert stream.take(len(DATA)) == DATA


@pytest.mark.parametrize(
    ("data", "take", "said"),
    [
        (b"abc", lambda stream: stream.take_unless_at_end(5), "2 bytes are missing"),
        (b"abc", lambda stream: stream.take(4), "1 byte is missing"),
        (b"", lambda stream: stream.take(5), "5 bytes are missing"),
    ],
)
def test_a_piece_beyond_the_end_says_how_much_is_missing(
    data: bytes, take: Callable[[ByteStream], bytes], said: str
) -> None:
    with pytest.raises(Damaged, match=f"^{said}$"):
        take(stream_of(data))


def test_compressed_data_that_ends_early_is_damaged_only_where_it_ends() -> None:
    stream = stream_of(gzip.compress(DATA)[:-100])
    assert stream.take(1000) == DATA[:1000]
    with pytest.raises(Damaged, match="ended before the end-of-stream"):
        stream.take(len(DATA))


@pytest.mark.parametrize(
    ("link_type", "header"),
    [
        (1, bytes(12) + b"\x81\x00\x00\x05\x08\x00"),
        (1, bytes(12) + b"\x88\xa8\x00\x05\x81\x00\x00\x06\x08\x00"),
        (0, struct.pack("<I", 2)),
        (108, struct.pack(">I", 2)),
        (12, b""),
        (14, b""),
        (101, b""),
        (228, b""),
        (113, bytes(14) + b"\x08\x00"),
        (113, bytes(14) + b"\x81\x00\x00\x05\x08\x00"),
        (276, b"\x08\x00" + bytes(18)),
        (276, b"\x81\x00" + bytes(18) + b"\x00\x05\x08\x00"),
    ],
)
def test_link_types(link_type: int, header: bytes) -> None:
    frames = [
        dataclasses.replace(frame, link_type=link_type, data=header + frame.data[ETHERNET_BYTES:])
        for frame in conversation().captured()
    ]
    report = audit_frames(frames)
    assert report.roce_frames == len(frames)
    assert report.violations == ()
    assert report.flows[0].messages.sizes == {2 * MTU + 1: 3}


def test_an_unsupported_link_type_is_noted() -> None:
    frames = [dataclasses.replace(frame, link_type=147) for frame in conversation().captured()]
    report = audit_frames(frames)
    assert report.roce_frames == 0
    assert report.notes == ("12 frames ignored: link type 147 is not supported",)


@pytest.mark.parametrize(
    ("link_type", "data"),
    [
        (1, b""),
        (1, bytes(12)),
        (1, bytes(12) + b"\x81\x00\x00\x05"),  # ends within the VLAN tag
        (276, bytes(19)),
        (276, b"\x81\x00" + bytes(18) + b"\x00\x05"),
    ],
)
def test_a_frame_that_ends_before_its_ethertype_carries_nothing(link_type: int, data: bytes) -> None:
    assert content_of(link_type, data) is None


@pytest.mark.parametrize(
    ("link_type", "data", "ethertype"),
    [
        (1, bytes(12) + b"\x08\x06" + bytes(28), 0x0806),  # ARP
        (113, bytes(14) + b"\x88\xcc", 0x88CC),  # LLDP
        (276, b"\x08\x06" + bytes(18), 0x0806),
    ],
)
def test_other_frames_have_their_ethertype(link_type: int, data: bytes, ethertype: int) -> None:
    found = content_of(link_type, data)
    assert found is not None
    assert found[0] == ethertype


@pytest.mark.parametrize(("tags", "offset"), [(0, 14), (1, 18), (2, 22), (3, 26)])
def test_every_vlan_tag_moves_the_ip_header_by_four_bytes(tags: int, offset: int) -> None:
    assert content_of(1, bytes(12) + b"\x81\x00\x00\x05" * tags + b"\x86\xdd") == (0x86DD, offset)


def test_only_known_link_types_are_supported() -> None:
    assert is_supported(1)
    assert not is_supported(147)


TIME_NS = 1_700_000_000_123_456_789
ORDERS = [pytest.param("<", id="little-endian"), pytest.param(">", id="big-endian")]


def reader(data: bytes) -> PcapReader:
    return PcapReader(data[:4], stream_of(data[4:]))


def header(order: str, *, magic: int = 0xA1B2C3D4, link_type: int = 1) -> bytes:
    return struct.pack(order + "IHHIIII", magic, 2, 4, 0, 0, 65535, link_type)


def record(order: str, data: bytes, *, original: int | None = None) -> bytes:
    return struct.pack(order + "IIII", 1, 2, len(data), len(data) if original is None else original) + data


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("magic", "time_ns"),
    [pytest.param(0xA1B2C3D4, 1_000_002_000, id="microseconds"), pytest.param(0xA1B23C4D, 1_000_000_002, id="ns")],
)
def test_the_magic_number_decides_byte_order_and_resolution(order: str, magic: int, time_ns: int) -> None:
    data = header(order, magic=magic, link_type=276) + record(order, b"abc") + record(order, b"")
    assert is_pcap(data[:4])
    assert list(reader(data)) == [CapturedFrame(1, time_ns, 276, b"abc"), CapturedFrame(2, time_ns, 276, b"")]


def test_microseconds_cut_the_rest_of_the_time() -> None:
    (frame,) = reader(pcap([(TIME_NS, b"abc")], nano=False))
    assert frame.time_ns == TIME_NS // 1000 * 1000


@pytest.mark.parametrize("above", [0x04000000, 0xF4000000], ids=["length present", "and a length"])
def test_bits_of_the_frame_check_sequence_are_not_part_of_the_link_type(above: int) -> None:
    (frame,) = reader(header("<", link_type=above | 1) + record("<", b"abc"))
    assert frame.link_type == 1


def test_a_frame_cut_by_the_snapshot_length_has_the_captured_bytes() -> None:
    frames = list(reader(header("<") + record("<", b"abc", original=1500) + record("<", b"def")))
    assert [one.data for one in frames] == [b"abc", b"def"]


@pytest.mark.parametrize("magic", [b"", b"\xa1\xb2", b"\xa1\xb2\xcd\x34", b"\x0a\x0d\x0d\x0a"])
def test_other_magic_numbers_are_not_pcap(magic: bytes) -> None:
    assert not is_pcap(magic)


@pytest.mark.parametrize("size", range(4, 24))
def test_an_incomplete_header_is_damage(size: int) -> None:
    with pytest.raises(Damaged, match=rf"^{24 - size} bytes? (is|are) missing$|^20 bytes are missing$"):
        reader(header("<")[:size])


def test_a_record_longer_than_any_frame_is_damage_and_not_read() -> None:
    frames = iter(reader(header("<") + record("<", b"abc") + struct.pack("<IIII", 1, 2, LARGEST_FRAME + 1, 0)))
    assert next(frames).number == 1
    with pytest.raises(Damaged, match=r"a record of 262,145 bytes; the format allows 262,144"):
        next(frames)


def test_zeros_at_the_end_are_damage_and_not_frames() -> None:
    frames = iter(reader(pcap([(0, bytes(60))]) + bytes(1 << 20)))
    assert len(next(frames).data) == 60
    with pytest.raises(Damaged, match="more than 1,000 records without a frame"):
        list(frames)


def test_the_longest_frame_is_read() -> None:
    (frame,) = reader(header(">") + record(">", bytes(LARGEST_FRAME)))
    assert len(frame.data) == LARGEST_FRAME


@given(
    records=st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 999_999), st.binary(max_size=80)), max_size=6),
    is_nano=st.booleans(),
    order=st.sampled_from("<>"),
)
def test_a_file_written_by_scapy_is_read_as_scapy_reads_it(
    records: list[tuple[int, int, bytes]], is_nano: bool, order: str
) -> None:
    file = BytesIO()
    writer = RawPcapWriter(file, linktype=113, endianness=order, nano=is_nano)
    writer.write_header(None)
    for seconds, fraction, data in records:
        writer.write_packet(data, sec=seconds, usec=fraction)
    unit_ns = 1 if is_nano else 1000
    theirs = [
        (facts.sec * 10**9 + facts.usec * unit_ns, data) for data, facts in RawPcapReader(BytesIO(file.getvalue()))
    ]
    ours = list(reader(file.getvalue()))
    assert [(one.time_ns, one.data) for one in ours] == theirs
    assert [one.link_type for one in ours] == [113] * len(records)


RECORDS = [(TIME_NS + index, bytes([index]) * (60 + index)) for index in range(5)]


def pcapng_reader(data: bytes) -> PcapngReader:
    assert data[:4] == MAGIC
    return PcapngReader(stream_of(data[4:]))


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
    assert list(pcapng_reader(data)) == [CapturedFrame(1, 5000, 101, b"abcde"), CapturedFrame(2, 5000, 276, b"")]


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
    (frame,) = pcapng_reader(LE.section() + LE.interface(*options) + LE.packet(b"a", time=time))
    assert frame.time_ns == time_ns


@BOTH_ORDERS
def test_an_offset_of_the_interface_is_added_to_its_times(make: Blocks) -> None:
    offset = make.option(14, make.pack("q", -3))
    name = make.option(2, b"eth0\0")
    (frame,) = pcapng_reader(make.section() + make.interface(name, offset) + make.packet(b"a", time=4_000_001))
    assert frame.time_ns == 1_000_001_000


def test_options_after_their_end_are_not_read() -> None:
    options = LE.option(0, b"") + LE.option(9, bytes([9]))
    (frame,) = pcapng_reader(LE.section() + LE.interface(options) + LE.packet(b"a"))
    assert frame.time_ns == 5000


def test_blocks_of_other_kinds_are_skipped() -> None:
    statistics, own = LE.block(5, bytes(12)), LE.block(0x80000BAD, b"our own")
    assert [one.data for one in pcapng_reader(pcapng(RECORDS) + statistics + own)] == [data for _, data in RECORDS]


def test_a_second_section_has_its_own_interfaces_and_byte_order() -> None:
    data = pcapng(RECORDS[:2]) + BE.section() + BE.interface(link_type=113) + BE.packet(b"abc")
    assert [(one.number, one.link_type, one.data) for one in pcapng_reader(data)] == [
        (1, 1, RECORDS[0][1]),
        (2, 1, RECORDS[1][1]),
        (3, 113, b"abc"),
    ]


def test_interfaces_of_an_earlier_section_are_gone() -> None:
    frames = iter(pcapng_reader(LE.section() + LE.interface() + LE.section() + LE.packet(b"a")))
    with pytest.raises(Damaged, match=r"a packet of interface 0, which the file does not describe"):
        next(frames)


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (LE.packet(b"a", interface=9), "a packet of interface 9, which the file does not describe"),
        (LE.block(6, LE.pack("5I", 0, 0, 5, 100, 100) + b"abcd"), "a packet of 100 bytes in a block with 4"),
        *((LE.block(kind, b""), "shorter than its fields") for kind in (1, 2, 3, 6)),
    ],
)
def test_a_block_that_cannot_be_is_damage(block: bytes, said: str) -> None:
    with pytest.raises(Damaged, match=said):
        list(pcapng_reader(LE.section() + LE.interface() + block))


@BOTH_ORDERS
@pytest.mark.parametrize(("snapshot_bytes", "captured"), [(0, b"abcdef"), (4, b"abcd"), (60, b"abcdef")])
def test_a_simple_packet_has_no_time_and_the_snapshot_length_of_the_interface(
    make: Blocks, snapshot_bytes: int, captured: bytes
) -> None:
    simple = make.block(3, make.pack("I", 6) + captured)
    data = make.section() + make.interface(snapshot_bytes=snapshot_bytes) + simple
    assert list(pcapng_reader(data)) == [CapturedFrame(1, None, 1, captured)]


@BOTH_ORDERS
def test_the_obsolete_packet_block_is_read(make: Blocks) -> None:
    old = make.block(2, make.pack("HHIIII", 1, 77, 0, 5, 3, 3) + b"abc")
    data = make.section() + make.interface() + make.interface(link_type=113) + old
    assert list(pcapng_reader(data)) == [CapturedFrame(1, 5000, 113, b"abc")]


def test_an_unknown_byte_order_is_damage() -> None:
    with pytest.raises(Damaged, match=r"byte-order magic 01020304"):
        pcapng_reader(MAGIC + bytes(4) + bytes([1, 2, 3, 4]) + bytes(16))


@pytest.mark.parametrize("size", [0, 11, (1 << 24) + 1, 0xFFFFFFFF])
def test_an_impossible_block_length_is_damage(size: int) -> None:
    with pytest.raises(Damaged, match=rf"a block of {size:,} bytes"):
        list(pcapng_reader(LE.section() + struct.pack("<II", 5, size)))


def test_only_files_cut_between_blocks_are_whole() -> None:
    whole = pcapng(RECORDS[:2])
    ends = {28, len(pcapng([])), len(pcapng(RECORDS[:1])), len(whole)}  # 28: after the section header
    cut = [size for size in range(28, len(whole) + 1) if not is_damaged(whole[:size])]
    assert set(cut) == ends


def is_damaged(data: bytes) -> bool:
    try:
        list(pcapng_reader(data))
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
    assert [(one.time_ns, one.link_type, one.data) for one in pcapng_reader(data)] == theirs
