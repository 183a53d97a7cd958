"""Capture files: both formats, compressed, incomplete, and files that are not captures."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.annexes.bench_kit.audit.capture import Capture, audit_file
from emulator.errors import InputError
from tests.support.roce_capture import MTU, Conversation, pcap, pcapng

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


def test_a_saved_conversation_is_read_as_it_was(tmp_path: Path) -> None:
    talk = Conversation()
    talk.write(5000)
    assert list(Capture(talk.save(tmp_path / "c"))) == list(talk.captured())


def test_a_capture_is_read_from_a_pipe(tmp_path: Path, container: Container) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as end:
        end.write(container(RECORDS))
    with os.fdopen(reading, "rb"):
        assert [(one.time_ns, one.data) for one in Capture(Path(f"/dev/fd/{reading}"))] == RECORDS


def test_the_reason_for_refusing_a_file_is_given(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"/c: the header .* is damaged or incomplete \(4 bytes are missing\)$"):
        list(written(tmp_path / "c", pcap([])[:20]))


def test_a_file_without_frames_has_none(tmp_path: Path, container: Container) -> None:
    capture = written(tmp_path / "c", container([]))
    assert list(capture) == []
    assert capture.notes == []


def test_an_incomplete_last_record_says_how_much_is_missing(tmp_path: Path, container: Container) -> None:
    capture = written(tmp_path / "c", container(RECORDS)[:-1])
    assert len(list(capture)) == 4
    assert capture.notes == ["the file is damaged or ends early after frame 4: 1 byte is missing"]


def test_bytes_changed_within_compressed_data_are_reported(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(pcap(RECORDS)))
    data[-8] ^= 1  # the checksum of the data
    capture = written(tmp_path / "c", bytes(data))
    assert len(list(capture)) == 5
    assert "CRC check failed" in capture.notes[0]


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A capture of one RDMA WRITE of three packets."""
    talk = Conversation()
    talk.write(3 * MTU)
    return talk.save(tmp_path / "c.pcap")


def test_every_frame_of_the_file_is_audited(capture: Path) -> None:
    report = audit_file(capture)
    assert report.frames == report.roce_frames
    assert (report.frames > 0, list(report.violations)) == (True, [])


def test_frames_for_another_port_are_not_audited(capture: Path) -> None:
    with pytest.raises(InputError, match=r"c\.pcap: none of its \d+ frames goes to UDP port 4792 \(.*--port\)$"):
        audit_file(capture, port=4792)


def test_a_file_that_ends_before_the_first_frame_is_reported(capture: Path) -> None:
    capture.write_bytes(capture.read_bytes()[:30])
    with pytest.raises(InputError, match=r"none of its 0 frames .*; the file is damaged or ends early"):
        audit_file(capture)
