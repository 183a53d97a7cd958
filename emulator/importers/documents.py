"""JSON documents in files, folders and archives: each as bytes, with a name for messages."""

from __future__ import annotations

import io
import re
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from emulator.errors import TraceError
from emulator.wire.trace.compression import open_source

MAX_DOCUMENT_BYTES = 2 << 30
HEAD_BYTES = 1 << 16
HEADS = 20
"""Documents whose beginning is looked at to find out what a folder holds."""
_JSON = re.compile(r"\.json(\.gz|\.zst)?$")
_ARCHIVE = re.compile(r"\.(tar(\.gz|\.zst)?|tgz)$")


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON document.

    Attributes:
        name: path of the file, and the member of an archive, for messages.
        path: the file; None: it is a member of an archive, and held.
    """

    name: str
    path: Path | None
    held: bytes = b""

    def read(self) -> bytes:
        """Its bytes, not compressed.

        Raises:
            TraceError: the file cannot be read, is cut short, or is too large.
        """
        return self.held if self.path is None else _read(self.path)


def document_heads(path: Path) -> Iterator[bytes]:
    """The first bytes of the documents that `find_documents` finds; what cannot be read is passed over."""
    try:
        files = list(_files(path))
    except OSError:
        return
    for file in files[:HEADS]:
        with suppress(TraceError, OSError):
            if _ARCHIVE.search(file.name):
                yield from (one.held[:HEAD_BYTES] for one in _members(file))
            else:
                with open_source(file) as source:
                    yield source.read_at_least(HEAD_BYTES)[:HEAD_BYTES]


def find_documents(path: Path) -> Iterator[Document]:
    """The documents in a file, an archive, or a folder and its subfolders, in the order of their names.

    Raises:
        TraceError: an archive cannot be read, is cut short, or is too large.
    """
    try:
        files = list(_files(path))
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror or error}", path=path) from error
    for file in files:
        if _ARCHIVE.search(file.name):
            yield from _members(file)
        else:
            yield Document(str(file), file)


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        for entry in sorted(path.rglob("*")):
            if not entry.name.startswith(".") and entry.is_file() and _is_named_so(entry):
                yield entry
    elif path.is_file() and _is_named_so(path):
        yield path


def _is_named_so(path: Path) -> bool:
    return bool(_JSON.search(path.name) or _ARCHIVE.search(path.name))


def _read(path: Path) -> bytes:
    with open_source(path) as source:
        data = source.read_at_least(MAX_DOCUMENT_BYTES + 1)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise _too_large(str(path))
    return data


def _members(path: Path) -> Iterator[Document]:
    try:
        with tarfile.open(fileobj=io.BytesIO(_read(path))) as archive:
            members = [one for one in archive.getmembers() if one.isfile() and one.name.endswith(".json")]
            for member in sorted(members, key=lambda one: one.name):
                name = f"{path}:{member.name}"
                if member.size > MAX_DOCUMENT_BYTES:
                    raise _too_large(name)
                opened = archive.extractfile(member)
                assert opened is not None
                yield Document(name, None, opened.read())
    except (tarfile.TarError, EOFError, zlib.error, ValueError) as error:
        raise TraceError(f"is not a tar archive, or a corrupt one ({error})", path=path) from error


def _too_large(name: str) -> TraceError:
    return TraceError(f"is JSON of more than {MAX_DOCUMENT_BYTES >> 30} GiB: record fewer steps", path=name)
