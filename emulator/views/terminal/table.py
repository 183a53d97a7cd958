"""Tables from columns, fitted to the width of the terminal: whole columns are hidden and named, no number is cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from emulator.views.columns.columns import Column, Row, filled
from emulator.visible import visible


@dataclass(frozen=True, slots=True)
class FittedTable(Generic[Row]):
    """A table with a line per row.

    Attributes:
        columns: in order; optional ones without a value are hidden.
        rows: of the type that the columns take.
        more: a last line for what is not shown.
    """

    columns: Sequence[Column[Row]]
    rows: Sequence[Row]
    more: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = [_Cells(one, [one.cell(row) for row in self.rows]) for one in filled(self.columns, self.rows)]
        shown, hidden = self._fit(shown, options.max_width)
        gap = 2 if sum(one.width for one in shown) + 2 * len(shown) - 1 <= options.max_width else 1
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap - 1, 0, 0))
        lines = max((column.header.count("\n") for column, _ in shown), default=0)
        for column, _ in shown:
            table.add_column(
                "\n" * (lines - column.header.count("\n")) + column.header,  # headers stand on the line, rows hang
                justify="right" if column.is_number else "left",
                no_wrap=not column.folds,
                overflow="fold",
            )
        for at, row in enumerate(self.rows):
            table.add_row(*(Text(cells[at], one.style(row) if one.style else "") for one, cells in shown))
        yield table
        if self.more:
            yield Text(self.more, style="dim")
        if hidden:
            yield Text(f"Omitted at this width: {', '.join(one.name for one in hidden)}.", style="dim")

    def _fit(self, shown: list[_Cells[Row]], width: int) -> tuple[list[_Cells[Row]], list[Column[Row]]]:
        """(what to show, columns to hide)."""
        hidden: list[Column[Row]] = []
        while sum(one.least + 1 for one in shown) - 1 > width and len(shown) > 1:
            worst = max(reversed(shown), key=lambda one: one.column.sacrifice)
            shown = [one for one in shown if one is not worst]
            hidden.append(worst.column)
        return shown, hidden


class _Cells(NamedTuple, Generic[Row]):
    column: Column[Row]
    cells: Sequence[str]

    @property
    def width(self) -> int:
        """Columns of the terminal for its longest text."""
        return max(map(cell_len, [*self.column.header.split("\n"), *self.cells]))

    @property
    def least(self) -> int:
        """Columns of the terminal that it cannot do without: long text may be wrapped."""
        header = max(map(cell_len, self.column.header.split("\n")))
        return max(header, min(self.width, self.column.folds)) if self.column.folds else self.width


def facts_grid(facts: Iterable[tuple[str, str]]) -> Table:
    """(name, fact) pairs in two columns, without a frame."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, fact in facts:
        grid.add_row(name, Text(visible(fact)))
    return grid
