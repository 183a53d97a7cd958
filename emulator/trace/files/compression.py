"""Trace files as streams of bytes: plain, gzip or zstandard, told apart by their first bytes, never by the name.

Memory stays bounded whatever a file claims: blocks are small, and what unfolds beyond reason is refused.
"""

from __future__ import annotations

import gzip
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from io import BufferedReader
from pathlib import Path
from typing import IO, Protocol

from emulator.errors import TraceError
from emulator.trace.files import truncated_file

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
GZIP_LEVEL = 6
ZSTD_LEVEL = 3

BLOCK_BYTES = 256 << 10
ZSTD_WINDOW_LOG = 27  # 128 MiB
MAX_UNFOLD_RATIO = 400  # real traces reach 40; gzip itself can do 1,032
UNFOLD_ALLOWANCE_BYTES = 32 << 20


class ByteSink(Protocol):
    """What bytes are written to."""

    def write(self, data: bytes, /) -> object:
        """Take all of `data`."""
        ...

    def close(self) -> None:
        """End of the data."""
        ...


class Encoding(Enum):
    """How the bytes of a file are compressed; the value is the suffix that its name gets."""

    PLAIN = ""
    GZIP = ".gz"
    ZSTD = ".zst"

    @classmethod
    def of_name(cls, path: Path) -> Encoding:
        """What the name asks for: for files that are to be written."""
        return next((encoding for encoding in (cls.GZIP, cls.ZSTD) if path.name.endswith(encoding.value)), cls.PLAIN)

    @classmethod
    def of_head(cls, head: bytes) -> Encoding:
        """What a file's first four bytes say."""
        if head.startswith(GZIP_MAGIC):
            return cls.GZIP
        return cls.ZSTD if head.startswith(ZSTD_MAGIC) else cls.PLAIN


class ByteSource:
    """A file's uncompressed bytes, in order; comes from `open_source`.

    Attributes:
        encoding: how the file is compressed.
        size: length of the uncompressed bytes where it is known beforehand (plain files).
    """

    def __init__(
        self, raw: IO[bytes], path: Path, *, encoding: Encoding, file_size: int, allowance: int = UNFOLD_ALLOWANCE_BYTES
    ) -> None:
        self.encoding = encoding
        self.size = file_size if encoding is Encoding.PLAIN else None
        self._path = path
        self._most_bytes = allowance + MAX_UNFOLD_RATIO * file_size
        self._blocks = self._guard(_DECODERS[encoding](raw))

    def read_at_least(self, count: int) -> bytes:
        """`count` bytes or somewhat more; fewer only at the end, none past it.

        Raises:
            TraceError: the file cannot be read, or its compression is corrupt, cut short, or a bomb.
        """
        parts = []
        while count > 0 and (block := next(self._blocks, b"")):
            parts.append(block)
            count -= len(block)
        return b"".join(parts)

    def _guard(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        offset = 0
        try:
            for block in blocks:
                yield block
                offset += len(block)
                if offset > self._most_bytes:
                    raise TraceError(f"expands to more than {MAX_UNFOLD_RATIO} times its size", path=self._path)
        except EOFError as error:
            raise truncated_file.ends_inside_compressed_data(self._path, offset) from error
        except (gzip.BadGzipFile, zlib.error, zstd.ZstdError) as error:
            problem = f"the compressed data is corrupt ({error})"
            raise TraceError(problem, path=self._path, offset=offset) from error
        except OSError as error:
            raise _unreadable(self._path, error) from error


@contextmanager
def open_source(path: Path, *, allowance: int = UNFOLD_ALLOWANCE_BYTES) -> Iterator[ByteSource]:
    """Open a regular file for reading whatever its compression; `allowance`: see UNFOLD_ALLOWANCE_BYTES.

    Raises:
        TraceError: it cannot be opened, or is not a regular file.
    """
    with _open_regular(path) as raw:
        try:
            head = raw.peek(4)[:4]
        except OSError as error:
            raise _unreadable(path, error) from error
        size = os.fstat(raw.fileno()).st_size
        yield ByteSource(raw, path, encoding=Encoding.of_head(head), file_size=size, allowance=allowance)


def compressing_writer(raw: IO[bytes], encoding: Encoding) -> ByteSink:
    """A stream that compresses into `raw` and leaves it open when closed; the same bytes in give the same bytes out."""
    if encoding is Encoding.GZIP:
        return gzip.GzipFile(filename="", mode="wb", compresslevel=GZIP_LEVEL, fileobj=raw, mtime=0)
    return zstd.ZstdFile(raw, "wb", level=ZSTD_LEVEL)


def _open_regular(path: Path) -> BufferedReader:
    try:
        # Not waiting: opening a pipe for reading would block until somebody writes.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(path, error) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise TraceError("is not a regular file", path=path)
    return os.fdopen(descriptor, "rb")


def _unreadable(path: Path, error: OSError) -> TraceError:
    return TraceError(f"cannot be read: {error.strerror or error}", path=path)


def _plain_blocks(raw: IO[bytes]) -> Iterator[bytes]:
    while block := raw.read(BLOCK_BYTES):
        yield block


def _gzip_blocks(raw: IO[bytes]) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=raw) as unfolded:
        while block := unfolded.read(BLOCK_BYTES):
            yield block


def _zstd_blocks(raw: IO[bytes]) -> Iterator[bytes]:
    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG}
    with zstd.ZstdFile(raw, options=options) as unfolded:
        while block := unfolded.read(BLOCK_BYTES):
            yield block


_DECODERS = {Encoding.PLAIN: _plain_blocks, Encoding.GZIP: _gzip_blocks, Encoding.ZSTD: _zstd_blocks}
