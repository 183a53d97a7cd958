"""The three ways a trace file may be compressed, told apart by their first bytes, never by the name."""

from __future__ import annotations

import gzip
from enum import Enum
from pathlib import Path
from typing import IO, Protocol

import zstandard

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
GZIP_LEVEL = 6
ZSTD_LEVEL = 3


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


def compressing_writer(raw: IO[bytes], encoding: Encoding) -> ByteSink:
    """A stream that compresses into `raw` and leaves it open when closed; the same bytes in give the same bytes out."""
    if encoding is Encoding.GZIP:
        return gzip.GzipFile(filename="", mode="wb", compresslevel=GZIP_LEVEL, fileobj=raw, mtime=0)
    return zstandard.ZstdCompressor(level=ZSTD_LEVEL).stream_writer(raw, closefd=False)
