"""Writing a file of length-delimited messages whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from emulator.errors import HostError
from emulator.trace.files.compression import ByteSink, Encoding, compressing_writer

FLUSH_BYTES = 1 << 20


def encode_varint(value: int) -> bytes:
    """A number as protobuf's varint, shortest form."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_frame(payload: bytes) -> bytes:
    """A message with its length before it."""
    return encode_varint(len(payload)) + payload


class FrameOutput:
    """A file being written, buffered; comes from `frame_output`."""

    def __init__(self, stream: ByteSink, path: Path) -> None:
        self._stream = stream
        self._path = path
        self._buffer = bytearray()

    def write(self, data: bytes | memoryview) -> None:
        """Append whole frames.

        Raises:
            HostError: the file cannot be written.
        """
        self._buffer += data
        if len(self._buffer) >= FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand on what is buffered.

        Raises:
            HostError: the file cannot be written.
        """
        with _as_host_error(self._path):
            self._stream.write(bytes(self._buffer))
        self._buffer.clear()


@contextmanager
def frame_output(path: Path, *, encoding: Encoding) -> Iterator[FrameOutput]:
    """Write `path` beside its place and rename it there at the end; nothing is left behind when the body fails.

    Raises:
        HostError: the file cannot be written.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    with _as_host_error(path):
        raw = partial.open("wb")
    try:
        try:
            yield from _compressed_output(raw, path, encoding)
        finally:
            with _as_host_error(path):  # it writes what a full disk has not taken yet once more
                raw.close()
        with _as_host_error(path):
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _compressed_output(raw: IO[bytes], path: Path, encoding: Encoding) -> Iterator[FrameOutput]:
    stream: ByteSink = raw if encoding is Encoding.PLAIN else compressing_writer(raw, encoding)
    output = FrameOutput(stream, path)
    yield output
    output.flush()
    with _as_host_error(path):
        if stream is not raw:
            stream.close()
        raw.flush()


@contextmanager
def _as_host_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HostError(
            f"cannot write {path}: {error.strerror or error}; free some space, or choose a different place"
        ) from error
