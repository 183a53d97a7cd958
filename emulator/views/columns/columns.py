"""Columns of tables: header, meaning, value and cell. Terminals, HTML, Markdown and JSON read the same columns."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Generic, TypeVar

from emulator.views.columns.figures import NONE

Row = TypeVar("Row")
_EXPLAIN_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Header:
    """What stands above a column.

    Attributes:
        header: text above the column; line breaks are those of a terminal table.
        meaning: what the column shows, for readers who do not know the term; "" if the header says it all.
        unit: of the numbers in the cells, if the cells do not carry it themselves.
        title: the header on one line, if it is not simply the header without line breaks.
        is_number: numbers are aligned to the right.
        is_shown: False: only JSON has it.
    """

    header: str
    meaning: str = ""
    unit: str = ""
    title: str = ""
    is_number: bool = True
    is_shown: bool = True

    @property
    def name(self) -> str:
        """The header on one line."""
        return self.title or self.header.replace("-\n", "").replace("\n", " ").strip()


def texts(*headers: str) -> list[Header]:
    """Headers of columns that are no numbers, without a meaning."""
    return [Header(one, is_number=False) for one in headers]


def text_cell(value: Any) -> str:
    """A value as text; a dash for an unknown or empty one."""
    return NONE if value is None or value == "" else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(Header, Generic[Row]):
    """A column of a table whose rows are values of one type.

    Attributes:
        key: of the value in JSON, with its unit; "" if JSON does not have it.
        value: row -> value in JSON, None if it is unknown; by default the attribute that the key names.
        show: value -> text.
        cell: row -> text; `NONE` for an unknown value; by default its value as `show` has it.
        is_optional: hidden if no row has a value.
        folds: width at which longer text is wrapped if the terminal is too narrow for it; 0 = never wrapped.
        sacrifice: the column with the highest number is hidden first if the terminal is too narrow; of equals the last.
            A verdict has -1: it stays to the end.
        style: row -> style of the cell in a terminal.
    """

    key: str = ""
    value: Callable[[Row], Any] = None  # type: ignore[assignment]  # set below
    show: Callable[[Any], str] = text_cell
    cell: Callable[[Row], str] = None  # type: ignore[assignment]  # set below
    is_optional: bool = False
    folds: int = 0
    sacrifice: int = 0
    style: Callable[[Row], str] | None = None

    def __post_init__(self) -> None:
        value = attrgetter(self.key) if self.value is None else self.value
        object.__setattr__(self, "value", value)
        if self.cell is None:
            object.__setattr__(self, "cell", lambda row: self.show(value(row)))


def unshown(key: str, value: Callable[[Row], Any] | None = None) -> Column[Row]:
    """A column that only JSON has; arguments as those of a column."""
    return Column("", is_shown=False, key=key, value=value or attrgetter(key))


def bold(_: object) -> str:
    """Style of the columns that a reader looks at first."""
    return "bold"


def filled(columns: Iterable[Column[Row]], rows: Sequence[Row]) -> list[Column[Row]]:
    """The columns to show: all but optional ones without any value."""
    shown = [one for one in columns if one.is_shown]
    return [one for one in shown if not one.is_optional or any(one.cell(row) != NONE for row in rows)]


def row_to_json(columns: Iterable[Column[Row]], row: Row) -> dict[str, Any]:
    """The values of a row by key."""
    return {one.key: one.value(row) for one in columns if one.key}


def paragraphs(*parts: str) -> str:
    """Texts below each other, with an empty line between."""
    return "\n\n".join(parts)


def explain(headers: Iterable[Header], *, title: str = "") -> str:
    """What every column means: one entry per column, wrapped and aligned.

    Args:
        title: of the table; a line above the columns.
    """
    headers = [one for one in headers if one.is_shown]
    width = max((len(one.name) for one in headers), default=0)
    lines = [title] if title else []
    for one in headers:
        first = f"  {one.name:<{width}}  "
        text = f"{one.meaning} ({one.unit})" if one.unit else one.meaning
        lines += textwrap.wrap(
            text, _EXPLAIN_WIDTH, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False
        )
    return "\n".join(lines)
