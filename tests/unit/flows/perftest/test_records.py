"""Blocks of perftest's exchange, against bytes that ib_write_bw and ib_read_lat 6.06 sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.errors import RemoteProtocolError
from emulator.flows.perftest.records import (
    RECORD_BYTES,
    BandwidthReport,
    QpRecord,
    decode_int,
    decode_path_mtu,
    decode_record,
    decode_report,
    decode_version,
    encode_int,
    encode_path_mtu,
    encode_version,
)
from emulator.roce.constants import PATH_MTUS

VERSION = b"6.06" + bytes(12)
WRITE_BW = (
    b"0000:0001:000011:94b3d3:0000027b:00007f4838903000:00:00:00:00:00:00:00:00:00:00:ff:ff:0a:63:00:02:00000000:\0"
)
READ_LAT = (
    b"0000:0080:000012:78b7b2:00000321:000055a8fe9e0000:00:00:00:00:00:00:00:00:00:00:ff:ff:0a:63:00:02:00000000:\0"
)


def test_this_end_announces_what_perftest_6_06_does() -> None:
    assert (encode_version(), encode_int(4096), encode_int(64)) == (VERSION, b"\0\0\x10\0", b"\0\0\0@")
    assert encode_path_mtu(4096) == b"5\0"


def test_records_of_the_tool_are_read_and_written_alike() -> None:
    for data, reads in ((WRITE_BW, 1), (READ_LAT, 128)):
        record = decode_record(data)
        assert (record.host, record.outstanding_reads) == ("10.99.0.2", reads)
        assert record.encode() == data
    assert decode_record(WRITE_BW) == QpRecord(
        qpn=0x11, psn=0x94B3D3, rkey=0x27B, address=0x7F4838903000, host="10.99.0.2"
    )


@given(
    st.builds(
        QpRecord,
        qpn=st.integers(0, (1 << 24) - 1),
        psn=st.integers(0, (1 << 24) - 1),
        rkey=st.integers(0, (1 << 32) - 1),
        address=st.integers(0, (1 << 64) - 1),
        host=st.one_of(st.ip_addresses(v=4), st.just("2001:db8::1"), st.just("fe80::1")).map(str),
        outstanding_reads=st.integers(0, 0xFFFF),
    )
)
def test_every_record_has_one_length_and_survives_the_wire(record: QpRecord) -> None:
    assert len(record.encode()) == RECORD_BYTES
    assert decode_record(record.encode()) == record


@given(st.binary(min_size=RECORD_BYTES, max_size=RECORD_BYTES))
def test_other_bytes_are_no_record(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="describes a queue pair"):
        decode_record(data)


def test_numbers_with_too_many_digits_are_refused() -> None:
    wide = WRITE_BW.replace(b":000011:", b":1000011:").replace(b"0000:0001", b"0000:0001")
    with pytest.raises(RemoteProtocolError, match="too many digits"):
        decode_record(wide)


@pytest.mark.parametrize("version", ["5.70", "6.06", "6.28", "26.01.5"])
def test_versions_that_can_be_talked_to(version: str) -> None:
    assert decode_version(encode_version(version)) == version


def test_an_older_version_is_named() -> None:
    with pytest.raises(RemoteProtocolError, match=r"runs version 5\.33 .* 5\.70 or newer"):
        decode_version(encode_version("5.33"))


@pytest.mark.parametrize("data", [bytes(16), b"GET / HTTP/1.1\r\n", b"6" + bytes(15), b"0000:0001:000011"])
def test_a_stranger_is_named(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="is it perftest"):
        decode_version(data)


def test_path_mtus_survive_the_wire() -> None:
    assert [encode_path_mtu(mtu) for mtu in PATH_MTUS] == [b"1\0", b"2\0", b"3\0", b"4\0", b"5\0"]
    assert [decode_path_mtu(encode_path_mtu(mtu)) for mtu in PATH_MTUS] == list(PATH_MTUS)


@pytest.mark.parametrize("data", [b"0\0", b"6\0", b"\0\0", b"x\0", b"-1"])
def test_other_path_mtus_are_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="1 to 5 is expected"):
        decode_path_mtu(data)


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_numbers_survive_the_wire(value: int) -> None:
    assert decode_int(encode_int(value)) == value


def test_results_are_big_endian_and_survive_the_wire() -> None:
    report = BandwidthReport(size_bytes=65536, iterations=5000, peak=0.0, average=93.75, messages_per_us=0.0015)
    blocks = report.encode()
    assert blocks[:2] == [bytes.fromhex("0000000000010000"), bytes.fromhex("0000000000001388")]
    assert blocks[3] == bytes.fromhex("4057700000000000")
    assert decode_report(blocks) == report
    assert report.bytes_per_s == pytest.approx(1500 * 65536)
