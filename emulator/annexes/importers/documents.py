"""JSON documents in files, folders and archives: each as bytes, with a name for messages."""

from __future__ import annotations

import atexit
import io
import re
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Protocol

from emulator.annexes.importers.text_files import HEAD_BYTES, file_heads, source_files
from emulator.errors import HostError, TraceError
from emulator.host.files import scratch_folder
from emulator.trace.files.compression import ByteSource, Encoding, open_source

HEADS = 20
"""Documents whose beginning is looked at to find out what a folder holds."""
MOST_MEMBERS = 10_000
"""JSON documents of an archive."""
_BLOCK_BYTES = 1 << 20
_JSON = re.compile(r"\.json(\.gz|\.zst)?$")
_ARCHIVE = re.compile(r"\.(tar(\.gz|\.zst)?|tgz)$")


class Bytes(Protocol):
    """The bytes of a document, in order."""

    def read_at_least(self, count: int) -> bytes:
        """`count` bytes or more; fewer only at the end."""
        ...


@dataclass(frozen=True, slots=True)
class JsonDocument:
    """A JSON document.

    Attributes:
        name: path of the file, and the member of an archive, for messages.
        path: the file; of a member of a compressed archive, that archive as it was unpacked.
        offset, size: of a member in its archive, which is not compressed at that; size -1: the document is the file.
    """

    name: str
    path: Path
    offset: int = 0
    size: int = -1

    @property
    def file_bytes(self) -> int:
        """Its size on disk, compressed or not; of a member of an archive, not compressed."""
        return self.path.stat().st_size if self.size < 0 else self.size

    @contextmanager
    def open(self) -> Iterator[Bytes]:
        """Its bytes, not compressed, as they come.

        Raises:
            TraceError: the file cannot be read, or is cut short; also from reading.
        """
        if self.size < 0:
            with open_source(self.path) as source:
                yield source
            return
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                yield _Member(file, self.size)
        except OSError as error:
            raise TraceError(f"cannot be read: {error.strerror or error}", path=self.name) from error

    def head(self) -> bytes:
        """The first HEAD_BYTES.

        Raises:
            TraceError: the file cannot be read.
        """
        with self.open() as source:
            return source.read_at_least(HEAD_BYTES)[:HEAD_BYTES]


class _Member:
    """A member of an archive."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._left = file, size

    def read_at_least(self, count: int) -> bytes:
        found = self._file.read(min(self._left, max(count, _BLOCK_BYTES)))
        self._left -= len(found)
        return found


def source_heads(path: Path) -> Iterator[bytes]:
    """What tells the format of a source: the first bytes of its documents, then of its files of any name.

    What cannot be read is passed over.
    """
    with suppress(TraceError):
        for file in _files(path)[:HEADS]:
            with suppress(TraceError, OSError):
                if _ARCHIVE.search(file.name):
                    yield from _member_heads(file)
                else:
                    yield JsonDocument(str(file), file).head()
    yield from file_heads(path)


def find_documents(path: Path) -> Iterator[JsonDocument]:
    """The documents in a file, an archive, or a folder and its subfolders, in the order of their names.

    Raises:
        TraceError: a folder or an archive cannot be read, or is cut short.
    """
    for file in _files(path):
        if _ARCHIVE.search(file.name):
            yield from sorted(_members(file), key=lambda one: one.name)
        else:
            yield JsonDocument(str(file), file)


def _files(path: Path) -> list[Path]:
    return [one for one in source_files(path) if _JSON.search(one.name) or _ARCHIVE.search(one.name)]


class _Stream(io.RawIOBase):
    """A source as tarfile wants it."""

    def __init__(self, source: ByteSource) -> None:
        super().__init__()
        self._source, self._ahead = source, b""

    def read(self, size: int = -1) -> bytes:
        data = self._ahead
        if len(data) < size:
            data += self._source.read_at_least(size - len(data))
        data, self._ahead = data[:size], data[size:]
        return data


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with open_source(path) as source, tarfile.open(fileobj=_Stream(source), mode="r|") as archive:
            yield archive
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise TraceError(f"cannot be read as a tar archive: {error}", path=path) from error


def _members(path: Path) -> Iterator[JsonDocument]:
    unpacked = _unpacked(path.absolute(), path.stat().st_mtime_ns)
    with _opened(unpacked) as archive:
        for number, member in enumerate(_json_members(archive)):
            if number == MOST_MEMBERS:
                raise TraceError(f"has more than {MOST_MEMBERS:,} JSON documents", path=path)
            yield JsonDocument(f"{path}:{member.name}", unpacked, member.offset_data, member.size)


@cache
def _unpacked(path: Path, changed_ns: int) -> Path:
    """An archive that is not compressed: itself, or a temporary file; a member is then read from where it begins.

    Args:
        path: of the archive.
        changed_ns: when it was changed: another time, another archive.
    """
    with open_source(path) as source:
        if source.encoding is Encoding.PLAIN:
            return path
        unpacked = _folder() / f"{_unpacked.cache_info().misses}.tar"
        try:
            with unpacked.open("wb") as file:
                while block := source.read_at_least(_BLOCK_BYTES):
                    file.write(block)
        except OSError as error:
            problem = f"{path} cannot be unpacked to {unpacked.parent} ({error.strerror})"
            raise HostError(f"{problem}: free space, or set TMPDIR to a different folder") from error
    return unpacked


@cache
def _folder() -> Path:
    """For unpacked archives, until the command ends: processes that read ranks open them, too."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(scratch_folder())


def _json_members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    return (one for one in archive if one.isreg() and not one.issparse() and one.name.endswith(".json"))


def _member_heads(path: Path) -> Iterator[bytes]:
    with _opened(path) as archive:
        for member in _json_members(archive):
            opened = archive.extractfile(member)
            assert opened is not None
            yield opened.read(HEAD_BYTES)
