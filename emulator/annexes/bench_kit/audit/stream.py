"""Bytes of a capture file, in pieces of a known length."""

from __future__ import annotations

import gzip
import zlib
from io import BufferedReader

_GZIP = b"\x1f\x8b"
_READ_ERRORS = (EOFError, OSError, zlib.error)


class Damaged(Exception):
    """The file ends early or breaks its format; the text gives the reason."""


class ByteStream:
    """The bytes of a file, plain or gzip, in their order. The file need not be seekable.

    Args:
        file: opened for binary reading, with a buffer.
    """

    def __init__(self, file: BufferedReader) -> None:
        is_compressed = file.peek(len(_GZIP)).startswith(_GZIP)
        self._file = gzip.GzipFile(fileobj=file) if is_compressed else file

    def take(self, size: int) -> bytes:
        """The next `size` bytes.

        Raises:
            Damaged: fewer bytes are left.
        """
        data = self.take_unless_at_end(size)
        if len(data) < size:
            raise Damaged(_missing(size))
        return data

    def take_unless_at_end(self, size: int) -> bytes:
        """The next `size` bytes; none at the end of the file.

        Raises:
            Damaged: the file ends within these bytes.
        """
        try:
            data = self._file.read(size)
        except _READ_ERRORS as error:
            raise Damaged(str(error)) from error
        if 0 < len(data) < size:
            raise Damaged(_missing(size - len(data)))
        return data


def _missing(count: int) -> str:
    return f"{count} byte is missing" if count == 1 else f"{count} bytes are missing"
