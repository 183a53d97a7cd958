"""Record framing of .et files: messages one after another, each preceded by its length as a varint.

A length is never trusted: a record that is longer than the rest of the file or than MAX_RECORD_BYTES is an error before
anything of its size is allocated. Records are cut from large blocks in batches, which keeps the cost per record low.
truncated_file.py has the errors of files that end early. A file is written whole or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from emulator.errors import HostError
from emulator.trace.files import truncated_file
from emulator.trace.files.compression import ByteSink, ByteSource, Encoding, compressing_writer, open_source

MAX_RECORD_BYTES = 64 << 20
MAX_VARINT_BYTES = 10
MAX_LENGTH = 1 << 63


@dataclass(frozen=True, slots=True)
class FrameBatch:
    """Consecutive whole records.

    Attributes:
        base: offset of data[0] in the uncompressed file; None if the records were converted from JSON.
        data: the bytes; records first, an incomplete record may follow.
        starts: start of each record in `data`, then the end of the last one.
        payloads: the messages.
    """

    base: int | None
    data: bytes
    starts: list[int]
    payloads: list[bytes]

    def __len__(self) -> int:
        return len(self.payloads)

    def offset(self, index: int) -> int | None:
        """Offset of a record in the uncompressed file; None if it was converted from JSON."""
        return None if self.base is None else self.base + self.starts[index]

    def raw(self, first: int, end: int) -> bytes:
        """The bytes of records first … end-1, including their lengths."""
        return self.data[self.starts[first] : self.starts[end]]


def read_batches(path: Path) -> Iterator[FrameBatch]:
    """All records of a file in batches that are not empty; the longest record bounds the memory.

    Raises:
        TraceError: the file cannot be read, is empty, cut short or corrupt; with the offset of the record.
    """
    with open_source(path) as source:
        yield from _batches(source, path)


def _batches(source: ByteSource, path: Path) -> Iterator[FrameBatch]:
    base, pending, missing = 0, b"", 1
    while block := source.read_at_least(missing):
        data = pending + block if pending else block
        batch, record_size = _cut(data, base, path)
        if batch:
            yield batch
        used = batch.starts[-1]
        base, pending = base + used, data[used:]
        missing = max(1, record_size - len(pending))
        if source.size is not None and base + record_size > source.size:
            break
    if pending:
        raise truncated_file.ends_inside_record(path, base)
    if base == 0:
        raise truncated_file.empty_file(path)


def _cut(data: bytes, base: int, path: Path) -> tuple[FrameBatch, int]:
    """The complete records at the front of `data`, and the length of the incomplete one after them (0 if none)."""
    starts: list[int] = []
    payloads: list[bytes] = []
    size, start, record_size = len(data), 0, 0
    while start < size:
        length, body = data[start], start + 1
        if length >= 0x80:
            if body < size and data[body] < 0x80:  # nearly all nodes: 128 bytes to 16 KiB
                length += data[body] - 1 << 7
                body += 1
            else:
                length, body = _read_length(data, start, base, path)
        end = body + length
        if end > size:
            record_size = end - start
            break
        if not length and base + start:
            raise truncated_file.empty_record(path, base + start)
        starts.append(start)
        payloads.append(data[body:end])
        start = end
    starts.append(start)
    return FrameBatch(base, data, starts, payloads), record_size


def _read_length(data: bytes, start: int, base: int, path: Path) -> tuple[int, int]:
    """A length of several bytes and the start of its message; beyond the end of `data` if the length is incomplete."""
    value = 0
    for index, byte in enumerate(data[start : start + MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            if value > MAX_RECORD_BYTES:
                break
            return value, start + index + 1
    else:
        if len(data) - start < MAX_VARINT_BYTES:
            return 0, len(data) + 1
        value = MAX_LENGTH
    size = value if value < MAX_LENGTH else None
    raise truncated_file.impossible_length(path, base + start, size=size, limit=MAX_RECORD_BYTES)


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
