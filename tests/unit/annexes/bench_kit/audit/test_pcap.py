"""pcap files: byte orders, resolutions, damage; scapy as an independent writer and reader."""

from __future__ import annotations

import struct
from io import BufferedReader, BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.utils import RawPcapReader, RawPcapWriter

from emulator.annexes.bench_kit.audit.link import CapturedFrame
from emulator.annexes.bench_kit.audit.pcap import LARGEST_FRAME, PcapReader, is_pcap
from emulator.annexes.bench_kit.audit.stream import ByteStream, Damaged
from tests.support.roce_capture import pcap

TIME_NS = 1_700_000_000_123_456_789
ORDERS = [pytest.param("<", id="little-endian"), pytest.param(">", id="big-endian")]


def reader(data: bytes) -> PcapReader:
    return PcapReader(data[:4], ByteStream(BufferedReader(BytesIO(data[4:]))))


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
