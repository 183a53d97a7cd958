"""What an import could not take over from its source: part of a trace from there on, in every result of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from emulator.errors import TraceError

GUESSED: Literal["guessed"] = "guessed"
DROPPED: Literal["dropped"] = "dropped"


@dataclass(frozen=True, slots=True)
class ImportLoss:
    """Records of one kind that are not in the trace, or facts about traffic that were not recorded.

    Attributes:
        fate: guessed: a fact that is not recorded; dropped: a record that is not in the trace.
        what: kind of record or fact, and the reason.
        count: how many.
        first: file and record of the first of them.
    """

    fate: Literal["guessed", "dropped"]
    what: str
    count: int
    first: tuple[str, ...] = ()

    @property
    def warning(self) -> str:
        """Its name among the warnings of a trace."""
        return f"import {self.fate}: {self.what}"


@dataclass(frozen=True, slots=True)
class ImportFacts:
    """Where the nodes of a trace come from.

    Attributes:
        format: name of the importer; `chakra`: nothing was imported.
        losses: empty: the import was exact.
    """

    format: str = "chakra"
    losses: tuple[ImportLoss, ...] = ()

    def number(self, fate: str) -> int:
        """Records with this fate."""
        return sum(one.count for one in self.losses if one.fate == fate)

    def warnings(self) -> Mapping[str, int]:
        """Warning → number of times."""
        return {one.warning: one.count for one in self.losses}

    def lines(self) -> Iterator[str]:
        """A line for people per kind, with the place of the first one."""
        for one in self.losses:
            times = f" ({one.count:,} times)" if one.count != 1 else ""
            first = f"; first: {one.first[0]}" if one.first else ""
            yield f"import from {self.format} {one.fate}: {one.what}{times}{first}"


@dataclass(frozen=True, slots=True)
class ImportedFiles:
    """A trace that an importer has read.

    Attributes:
        write: writes it into a new folder as a trace of Chakra.
        ranks: of the job.
        only: the one to look at; None: all.
    """

    write: Callable[[Path], object]
    ranks: int
    only: int | None = None


NOT_IMPORTED = ImportFacts()
"""Of a trace that is Chakra's."""


def refuse_guesses(facts: ImportFacts, path: Path) -> None:
    """Refuse an import that is not exact.

    Args:
        path: the source, for the message.

    Raises:
        TraceError: it needed a guess; the first one is named.
    """
    for one in facts.losses:
        if one.fate == GUESSED:
            where = f" (first: {one.first[0]})" if one.first else ""
            raise TraceError(f"needs a guess {one.count} times: {one.what}{where}", path=path)
