import os
import resource
import tracemalloc
from pathlib import Path

import pytest
import zstandard
from google.protobuf.internal.encoder import _VarintBytes  # type: ignore[attr-defined]
from hypothesis import given
from hypothesis import strategies as st

from emulator.errors import HostError, TraceError
from emulator.trace.files import frames
from emulator.trace.files.compression import Encoding
from emulator.trace.files.frames import FLUSH_BYTES, encode_frame, encode_varint, frame_output, read_batches
from tests.support.trace_files import PACK, UNPACK, frame, read_frames

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


def test_what_cannot_be_opened_says_why(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        list(read_frames(tmp_path / "absent.0.et"))
    with pytest.raises(TraceError, match="is not a regular file"):
        list(read_frames(tmp_path))
    os.mkfifo(tmp_path / "pipe.0.et")
    with pytest.raises(TraceError, match="is not a regular file"):
        list(read_frames(tmp_path / "pipe.0.et"))


@given(st.integers(0, (1 << 64) - 1))
def test_a_varint_has_the_bytes_that_protobuf_gives_it(value: int) -> None:
    assert encode_varint(value) == _VarintBytes(value)


@pytest.mark.parametrize("size", [0, 1, 127, 128, 1 << 14])
def test_a_frame_is_a_length_and_the_message(size: int) -> None:
    assert encode_frame(b"x" * size) == frame(b"x" * size)


@pytest.mark.parametrize("encoding", Encoding)
def test_everything_written_is_in_the_file_and_nothing_else_beside_it(tmp_path: Path, encoding: Encoding) -> None:
    path = tmp_path / "t.0.et"
    parts = [b"a" * 10, b"b" * FLUSH_BYTES, b"", b"c" * 3]
    with frame_output(path, encoding=encoding) as output:
        for part in parts:
            output.write(part)
        assert not path.exists()
    assert UNPACK[encoding.value](path.read_bytes()) == b"".join(parts)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("encoding", Encoding)
def test_a_body_that_fails_leaves_the_earlier_file(tmp_path: Path, encoding: Encoding) -> None:
    path = tmp_path / "t.0.et"
    path.write_bytes(b"earlier")

    def fail() -> None:
        with frame_output(path, encoding=encoding) as output:
            output.write(b"x" * 2 * FLUSH_BYTES)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"earlier", [path])


def test_a_place_that_cannot_be_written_is_named_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "t.0.et"
    with (
        pytest.raises(HostError, match=f"cannot write {path}: No such file or directory; free some space, or choose"),
        frame_output(path, encoding=Encoding.PLAIN),
    ):
        pass


def test_a_full_disk_is_named_when_the_last_bytes_are_written(tmp_path: Path) -> None:
    path = tmp_path / "t.0.et"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, before[1]))  # fails like a full disk, with EFBIG
    try:
        with (
            pytest.raises(HostError, match=f"cannot write {path}: "),
            frame_output(path, encoding=Encoding.PLAIN) as output,
        ):
            output.write(b"more than four bytes")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


def test_a_folder_in_the_place_of_the_file_is_an_error_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "t.0.et"
    path.mkdir()
    with (
        pytest.raises(HostError, match=f"cannot write {path}: Is a directory"),
        frame_output(path, encoding=Encoding.PLAIN) as output,
    ):
        output.write(b"x")
    assert list(tmp_path.iterdir()) == [path]
