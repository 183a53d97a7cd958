from __future__ import annotations

import resource
from pathlib import Path

import pytest
from google.protobuf.internal.encoder import _VarintBytes  # type: ignore[attr-defined]
from hypothesis import given
from hypothesis import strategies as st

from emulator.errors import HostError
from emulator.trace.files.compression import Encoding
from emulator.trace.files.frame_output import FLUSH_BYTES, encode_frame, encode_varint, frame_output
from tests.support.trace_files import UNPACK, frame


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
