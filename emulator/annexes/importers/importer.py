"""What an importer is: a format, recognised by the first bytes of its files, and its reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Protocol

from emulator.annexes.importers.documents import document_heads
from emulator.annexes.importers.model import ImportedTrace
from emulator.annexes.importers.text_files import file_heads


class Reader(Protocol):
    """Reads the traces of a job."""

    def __call__(
        self, path: Path, *, ranks: int | None = None, on_rank: Callable[[int, int], None] | None = None
    ) -> ImportedTrace:
        """Read a folder, an archive or a file.

        Args:
            ranks: how many ranks the user asks for: only a source that says nothing of them needs it.
            on_rank: called with (ranks read, ranks in all).

        Raises:
            TraceError: it cannot be read.
        """
        ...


@dataclass(frozen=True, slots=True)
class Version:
    """A version that files carry: what refuses to be read in another one may be the fault of the reader.

    Attributes:
        what: whose version, for messages.
        pattern: of it in the first bytes of a file.
        known: those that the reader was written for.
    """

    what: str
    pattern: re.Pattern[bytes]
    known: Sequence[str]


@dataclass(frozen=True, slots=True)
class Importer:
    """A format.

    Attributes:
        is_head: whether a document that begins with these bytes is of this format.
        versions: that its files carry.
    """

    name: str
    title: str
    is_head: Callable[[bytes], bool]
    read: Reader
    versions: Sequence[Version] = ()

    def other_version(self, path: Path) -> str:
        """ " (what; known: …)" of a source in a version that this reader does not know, else ""."""
        for head in chain(document_heads(path), file_heads(path)):
            for one in self.versions if self.is_head(head) else ():
                found = {version.decode("utf-8", "replace") for version in one.pattern.findall(head)}
                if other := sorted(found.difference(one.known)):
                    return f" ({one.what} {other[0]}; known: {', '.join(one.known)})"
        return ""
