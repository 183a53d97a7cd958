"""JSON documents in files, folders and archives: each as bytes, with a name for messages."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from emulator.errors import TraceError
from emulator.importers.text_files import HEAD_BYTES, source_files
from emulator.wire.trace.compression import ByteSource, open_source

HEADS = 20
"""Documents whose beginning is looked at to find out what a folder holds."""
_JSON = re.compile(r"\.json(\.gz|\.zst)?$")
_ARCHIVE = re.compile(r"\.(tar(\.gz|\.zst)?|tgz)$")


class Bytes(Protocol):
    """The bytes of a document, in order."""

    def read_at_least(self, count: int) -> bytes:
        """`count` bytes or more; fewer only at the end."""
        ...


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON document.

    Attributes:
        name: path of the file, and the member of an archive, for messages.
        path: the file.
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
        """Its bytes, not compressed, as they come. A compressed archive is read again up to the member.

        Raises:
            TraceError: the file cannot be read, or is cut short; also from reading.
        """
        with open_source(self.path) as source:
            yield source if self.size < 0 else _Part(source, self)

    def head(self) -> bytes:
        """The first HEAD_BYTES.

        Raises:
            TraceError: the file cannot be read.
        """
        with self.open() as source:
            return source.read_at_least(HEAD_BYTES)[:HEAD_BYTES]


class _Part:
    """A member of an archive."""

    def __init__(self, source: ByteSource, document: Document) -> None:
        self._source, self._left = source, document.size
        self._ahead, skip = b"", document.offset
        while skip > 0 and (block := source.read_at_least(1)):
            self._ahead, skip = block[skip:], skip - len(block)

    def read_at_least(self, count: int) -> bytes:
        found = self._ahead
        if len(found) < count and len(found) < self._left:
            found += self._source.read_at_least(count - len(found))
        found, self._ahead = found[: self._left], b""
        self._left -= len(found)
        return found


def document_heads(path: Path) -> Iterator[bytes]:
    """The first bytes of the documents that `find_documents` finds; what cannot be read is passed over."""
    with suppress(TraceError):
        for file in _files(path)[:HEADS]:
            with suppress(TraceError, OSError):
                if _ARCHIVE.search(file.name):
                    yield from _member_heads(file)
                else:
                    yield Document(str(file), file).head()


def find_documents(path: Path) -> Iterator[Document]:
    """The documents in a file, an archive, or a folder and its subfolders, in the order of their names.

    Raises:
        TraceError: a folder or an archive cannot be read, or is cut short.
    """
    for file in _files(path):
        if _ARCHIVE.search(file.name):
            yield from sorted(_members(file), key=lambda one: one.name)
        else:
            yield Document(str(file), file)


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


def _members(path: Path) -> Iterator[Document]:
    with _opened(path) as archive:
        for member in _json_members(archive):
            yield Document(f"{path}:{member.name}", path, member.offset_data, member.size)


def _json_members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    return (one for one in archive if one.isreg() and not one.issparse() and one.name.endswith(".json"))


def _member_heads(path: Path) -> Iterator[bytes]:
    with _opened(path) as archive:
        for member in _json_members(archive):
            opened = archive.extractfile(member)
            assert opened is not None
            yield opened.read(HEAD_BYTES)
