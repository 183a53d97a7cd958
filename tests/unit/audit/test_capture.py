"""Capture files: both formats, compressed, incomplete, and files that are not captures."""

from __future__ import annotations

import gzip
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.audit.capture import Capture
from emulator.errors import HostError, InputError
from tests.support.roce_capture import Conversation, pcap, pcapng

TIME_NS = 1_700_000_000_123_456_789
RECORDS = [(TIME_NS + index, bytes([index]) * (60 + index)) for index in range(5)]
Container = Callable[[list[tuple[int, bytes]]], bytes]


@pytest.fixture(params=[pcap, pcapng])
def container(request: pytest.FixtureRequest) -> Container:
    return request.param  # type: ignore[no-any-return]


def written(path: Path, data: bytes) -> Capture:
    path.write_bytes(data)
    return Capture(path)


def test_frames_come_with_their_numbers_and_times(tmp_path: Path, container: Container) -> None:
    capture = written(tmp_path / "c", container(RECORDS))
    frames = list(capture)
    assert [(one.time_ns, one.data) for one in frames] == RECORDS
    assert [(one.number, one.link_type) for one in frames] == [(index + 1, 1) for index in range(5)]
    assert capture.notes == []


def test_microseconds(tmp_path: Path) -> None:
    (frame, *_) = written(tmp_path / "c", pcap(RECORDS, nano=False))
    assert frame.time_ns == TIME_NS // 1000 * 1000


def test_big_endian(tmp_path: Path) -> None:
    head = struct.pack(">IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    (frame,) = written(tmp_path / "c", head + struct.pack(">IIII", 1, 2, 3, 3) + b"abc")
    assert (frame.time_ns, frame.data) == (1_000_002_000, b"abc")


@pytest.mark.parametrize("above", [0x04000000, 0xF4000000], ids=["length present", "and a length"])
def test_bits_of_the_frame_check_sequence_are_not_part_of_the_link_type(tmp_path: Path, above: int) -> None:
    head = struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, above | 1)
    (frame,) = written(tmp_path / "c", head + struct.pack("<IIII", 1, 2, 3, 3) + b"abc")
    assert frame.link_type == 1


def test_compressed(tmp_path: Path, container: Container) -> None:
    assert len(list(written(tmp_path / "c", gzip.compress(container(RECORDS))))) == 5


def test_frames_longer_than_64_kib_are_not_truncated(tmp_path: Path, container: Container) -> None:
    (frame,) = written(tmp_path / "c", container([(TIME_NS, bytes(65_549))]))
    assert len(frame.data) == 65_549


@pytest.mark.parametrize("missing", [1, 30, 63, 64, 70, 79])
def test_an_incomplete_last_record_is_reported(tmp_path: Path, container: Container, missing: int) -> None:
    capture = written(tmp_path / "c", container(RECORDS)[:-missing])
    assert len(list(capture)) == 4
    (note,) = capture.notes
    assert "ends early" in note
    assert "after frame 4" in note


def test_an_incomplete_compressed_file_is_reported(tmp_path: Path, container: Container) -> None:
    capture = written(tmp_path / "c", gzip.compress(container(RECORDS))[:-20])
    assert len(list(capture)) < 5
    assert len(capture.notes) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x1f\x8b",
        b"\x1f\x8bgarbage and more of it",
        b"no capture",
        pcap([])[:20],
        pcapng([])[:20],
        gzip.compress(b"", mtime=0),  # parts of test ids: workers must agree on them
        gzip.compress(b"no capture", mtime=0),
    ],
)
def test_a_file_that_is_not_a_capture_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(InputError, match=str(tmp_path)):
        list(written(tmp_path / "c", data))


@pytest.mark.parametrize("name", [".", "absent"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=str(tmp_path)):
        list(Capture(tmp_path / name))


def test_blocks_of_other_kinds_are_skipped(tmp_path: Path) -> None:
    statistics = struct.pack("<IIIIII", 5, 24, 0, 0, 0, 24)
    capture = written(tmp_path / "c", pcapng(RECORDS) + statistics)
    assert len(list(capture)) == 5
    assert capture.notes == []


def test_a_second_section_has_its_own_interfaces(tmp_path: Path) -> None:
    capture = written(tmp_path / "c", pcapng(RECORDS[:2]) + pcapng(RECORDS[2:], link_type=113))
    assert [(one.link_type, one.data) for one in capture] == [
        (1 if index < 2 else 113, data) for index, (_, data) in enumerate(RECORDS)
    ]
    assert capture.notes == []


def test_a_record_of_an_unknown_interface_is_reported(tmp_path: Path) -> None:
    data = bytearray(pcapng(RECORDS[:1]))
    at = data.index(struct.pack("<I", 6), 28)
    data[at + 8] = 9
    capture = written(tmp_path / "c", bytes(data))
    assert list(capture) == []
    assert "interface" in capture.notes[0]


def test_a_saved_conversation_is_read_as_it_was(tmp_path: Path) -> None:
    talk = Conversation()
    talk.write(5000)
    assert list(Capture(talk.save(tmp_path / "c"))) == list(talk.captured())


def test_without_scapy_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scapy.utils", None)
    with pytest.raises(HostError, match=r"pip install 'charkha\[audit\]'"):
        list(written(tmp_path / "c", pcap(RECORDS)))


def test_a_pcapng_record_without_a_time_has_none(tmp_path: Path) -> None:
    header = bytearray(pcapng([]))
    header[40:44] = struct.pack("<I", 65_535)  # scapy needs the snapshot length of the interface here
    simple = struct.pack("<IIII", 3, 20, 4, 0x64636261) + struct.pack("<I", 20)  # a simple packet block
    (frame,) = written(tmp_path / "c", bytes(header) + simple)
    assert (frame.time_ns, frame.data) == (None, b"abcd")
