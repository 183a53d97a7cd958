"""Source files of any name: found in a folder, recognised by their first bytes, read whole or line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from emulator.errors import TraceError
from emulator.trace.files.compression import open_source

HEAD_BYTES = 1 << 16
HEADS = 50
"""Files that are looked at to find out what a folder holds."""
MAX_FILE_BYTES = 512 << 20
MAX_LINE_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 18


def source_files(path: Path) -> list[Path]:
    """A file, or the files in a folder and its subfolders in the order of their names, without hidden ones.

    Raises:
        TraceError: the folder cannot be read.
    """
    if not path.is_dir():
        return [path] if path.is_file() else []
    try:
        return [one for one in sorted(path.rglob("*")) if not one.name.startswith(".") and one.is_file()]
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror or error}", path=path) from error


def files_of_format(path: Path, is_head: Callable[[bytes], bool]) -> list[Path]:
    """The files that `source_files` finds whose first bytes are of a format.

    Raises:
        TraceError: the folder, or a file in it, cannot be read.
    """
    return [file for file in source_files(path) if is_head(file_head(file))]


def file_heads(path: Path) -> Iterator[bytes]:
    """The first bytes of the files that `source_files` finds; what cannot be read is passed over."""
    with suppress(TraceError, OSError):
        for file in source_files(path)[:HEADS]:
            with suppress(TraceError, OSError):
                yield file_head(file)


def file_head(path: Path) -> bytes:
    """The first bytes of a file, not compressed.

    Raises:
        TraceError: it cannot be read.
    """
    with open_source(path) as source:
        return source.read_at_least(HEAD_BYTES)[:HEAD_BYTES]


def read_whole(path: Path) -> bytes:
    """The bytes of a file, not compressed.

    Raises:
        TraceError: it cannot be read, is cut short, or is too large.
    """
    with open_source(path) as source:
        data = source.read_at_least(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise TraceError(f"has more than {MAX_FILE_BYTES >> 20} MiB: record less", path=path)
    return data


def read_lines(path: Path) -> Iterator[tuple[int, bytes, bool]]:
    """The lines of a file as (number from 1, line without its end, whether it has an end); memory stays bounded.

    Raises:
        TraceError: it cannot be read, is cut short, or a line is too long.
    """
    number, rest = 1, b""
    with open_source(path) as source:
        while block := source.read_at_least(_BLOCK_BYTES):
            *whole, rest = (rest + block).split(b"\n")
            for line in whole:
                yield number, line.rstrip(b"\r"), True
                number += 1
            if len(rest) > MAX_LINE_BYTES:
                raise TraceError(f"has a line of more than {MAX_LINE_BYTES >> 20} MiB", path=f"{path}, line {number}")
    if rest:
        yield number, rest, False


def of_line(path: Path, number: int) -> str:
    """A line as errors name it."""
    return f"{path}, line {number}"
