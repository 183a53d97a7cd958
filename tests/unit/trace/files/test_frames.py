from __future__ import annotations

import gzip
import os
import tracemalloc
from pathlib import Path

import pytest
import zstandard

from emulator.errors import TraceError
from emulator.trace.files import compression, frames
from emulator.trace.files.frames import read_batches
from tests.support.trace_files import PACK, frame, read_frames

PAYLOADS = [b"", b"a", b"b" * 127, b"c" * 128, b"d" * 20_000, b"e" * 3_000_000, b"f"]
DATA = b"".join(map(frame, PAYLOADS))


@pytest.fixture(params=PACK)
def suffix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def save(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "t.0.et"
    path.write_bytes(data)
    return path


def test_every_record_comes_with_its_bytes_and_offset(tmp_path: Path, suffix: str) -> None:
    found = list(read_frames(save(tmp_path, PACK[suffix](DATA))))
    assert [item.payload for item in found] == PAYLOADS
    assert b"".join(item.raw for item in found) == DATA
    assert all(DATA[item.offset : item.offset + len(item.raw)] == item.raw for item in found)


def test_a_length_in_more_bytes_than_needed_keeps_them(tmp_path: Path) -> None:
    data = frame(b"") + b"\x83\x80\x00abc" + b"\x82\x00de"
    found = list(read_frames(save(tmp_path, data)))
    assert [item.payload for item in found] == [b"", b"abc", b"de"]
    assert b"".join(item.raw for item in found) == data


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_compressed_members_one_after_another_are_one_file(tmp_path: Path, pack: object) -> None:
    data = b"".join(pack(DATA[start : start + 10_007]) for start in range(0, len(DATA), 10_007))  # type: ignore[operator]
    assert b"".join(item.raw for item in read_frames(save(tmp_path, data))) == DATA


def test_zstandard_frames_without_a_content_size_and_with_skippable_ones_are_read(tmp_path: Path) -> None:
    packer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00xyz"
    data = packer.compress(DATA) + packer.flush() + skippable
    assert b"".join(item.raw for item in read_frames(save(tmp_path, data))) == DATA


@pytest.mark.parametrize(
    ("data", "offset", "problem"),
    [
        (b"", 0, "the file is empty"),
        (frame(b"meta") + b"\x05abcd", 5, "ends inside the record"),
        (frame(b"meta") + b"\x05", 5, "ends inside the record"),
        (frame(b"meta") + b"\x80", 5, "ends inside the record"),
        (frame(b"meta") + frame(b"node") + b"\xff\xff", 10, "ends inside the record"),
        (frame(b"meta") + b"\x00" + frame(b"node"), 5, "an empty record"),
        (frame(b"meta") + b"\x80\x00" + frame(b"node"), 5, "an empty record"),
        (frame(b"meta") + b"\xff" * 10 + b"\x01", 5, "the length of a record is not a number"),
        (frame(b"meta") + b"\x80" * 9 + b"\x01", 5, "the length of a record is not a number"),
        (frame(b"meta") + b"\x80\x80\x80\x80\x08" + b"x" * 1000, 5, "a record of 2,147,483,648 bytes"),
        (b"\x80\x80\x80\x80\x08" + b"x" * 1000, 0, "a record of 2,147,483,648 bytes"),
    ],
)
def test_bad_framing_is_named_with_its_offset(
    tmp_path: Path, suffix: str, data: bytes, offset: int, problem: str
) -> None:
    with pytest.raises(TraceError, match=problem) as caught:
        list(read_frames(save(tmp_path, PACK[suffix](data))))
    assert caught.value.offset == offset
    assert "t.0.et" in str(caught.value)


@pytest.mark.parametrize("length", [(1 << 31) - 1, frames.MAX_RECORD_BYTES])
def test_a_huge_length_in_a_small_file_allocates_nothing_of_its_size(tmp_path: Path, suffix: str, length: int) -> None:
    claimed = bytes([*(length >> shift & 0x7F | 0x80 for shift in (0, 7, 14, 21)), length >> 28])
    path = save(tmp_path, PACK[suffix](frame(b"meta") + claimed + b"x" * 1000))
    tracemalloc.start()
    try:
        with pytest.raises(TraceError):
            list(read_batches(path))
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_a_long_file_is_read_in_bounded_memory(tmp_path: Path, suffix: str) -> None:
    data = b"".join(frame(os.urandom(20) + b"x" * 980) for _ in range(20_000))
    path = save(tmp_path, PACK[suffix](data))
    tracemalloc.start()
    try:
        count = sum(len(batch) for batch in read_batches(path))
        assert count == 20_000
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_every_cut_of_a_compressed_file_is_an_error(tmp_path: Path, suffix: str) -> None:
    data = PACK[suffix](frame(b"meta") + frame(os.urandom(60)))
    for length in range(1, len(data)):
        with pytest.raises(TraceError):
            list(read_frames(save(tmp_path, data[:length])))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_corrupt_compression_and_garbage_after_it_are_errors(tmp_path: Path, suffix: str) -> None:
    data = PACK[suffix](frame(os.urandom(5000)))
    with pytest.raises(TraceError, match="compressed data is corrupt"):
        list(read_frames(save(tmp_path, data + b"garbage that is not a member")))
    damaged = bytearray(data)
    damaged[7:40] = os.urandom(33)
    with pytest.raises(TraceError):
        list(read_frames(save(tmp_path, bytes(damaged))))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_compression_bomb_is_refused(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "UNFOLD_ALLOWANCE_BYTES", 0)
    path = save(tmp_path, PACK[suffix](frame(b"x" * 10_000) * 5_000))
    with pytest.raises(TraceError, match="expands to more than 400 times its size"):
        list(read_batches(path))


def test_what_cannot_be_opened_says_why(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        list(read_frames(tmp_path / "absent.0.et"))
    with pytest.raises(TraceError, match="is not a regular file"):
        list(read_frames(tmp_path))
    os.mkfifo(tmp_path / "pipe.0.et")
    with pytest.raises(TraceError, match="is not a regular file"):
        list(read_frames(tmp_path / "pipe.0.et"))
