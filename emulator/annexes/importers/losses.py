"""What became of the records of a source: counts and the first places, for the report on an import."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

SHOWN_PLACES = 3


class Fate(StrEnum):
    """What became of a record.

    Mapped to a node; merged into nodes or dependencies; dropped. Inferred: an order that times or records show without
    saying it. Guessed: a fact about traffic that is not recorded.
    """

    MAPPED = "mapped"
    MERGED = "merged"
    DROPPED = "dropped"
    INFERRED = "inferred"
    GUESSED = "guessed"


@dataclass(slots=True)
class Tally:
    """A number of records with the same fate, and where the first of them are."""

    count: int = 0
    first: list[str] = field(default_factory=list)


class Losses:
    """Counts of records by fate, of inferences and of guesses."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[Fate, str], Tally] = {}

    def count(self, fate: Fate, what: str, where: str = "", *, number: int = 1) -> None:
        """Count records.

        Args:
            what: kind of record, and for all but mapped ones the reason.
            where: file and record of the first of them.
        """
        if number:
            tally = self._tallies.setdefault((fate, what), Tally())
            tally.count += number
            if where and len(tally.first) < SHOWN_PLACES:
                tally.first.append(where)

    def add(self, other: Losses) -> None:
        """Add the counts of another rank or file."""
        for (fate, what), tally in other._tallies.items():
            mine = self._tallies.setdefault((fate, what), Tally())
            mine.count += tally.count
            mine.first += tally.first[: SHOWN_PLACES - len(mine.first)]

    def __iter__(self) -> Iterator[tuple[Fate, str, Tally]]:
        order = list(Fate)
        for fate, what in sorted(self._tallies, key=lambda one: (order.index(one[0]), one[1])):
            yield fate, what, self._tallies[fate, what]

    def number(self, fate: Fate) -> int:
        """Records with this fate."""
        return sum(tally.count for one, _, tally in self if one is fate)

    def to_plain(self) -> Mapping[str, Mapping[str, Mapping[str, object]]]:
        """Fate → what → count and first places."""
        plain: dict[str, dict[str, Mapping[str, object]]] = {fate.value: {} for fate in Fate}
        for fate, what, tally in self:
            plain[fate.value][what] = {"count": tally.count, "first": tally.first}
        return plain
