"""What `compare` returns, and tables of results. In a module of its own, since tables take a while to load."""

from __future__ import annotations

import pyarrow as pa

from charkha.notebook import OfflinePage, picture_of, table_html
from emulator.results.comparison import verdicts
from emulator.results.statistics.summary import RunSummary
from emulator.views.as_json import comparison_to_json
from emulator.views.columns.class_columns import CLASS_COLUMNS
from emulator.views.columns.columns import row_to_json
from emulator.views.comparison_text import answer_words
from emulator.views.html.comparison_page import comparison_page
from emulator.views.terminal.comparison_table import render
from emulator.views.terminal.console import as_text


class Comparison(verdicts.GroupComparison):
    """A comparison of two groups of runs: `print` shows its table, and `pairs` has every class with its figures."""

    __slots__ = ()

    def __repr__(self) -> str:
        word, counts = answer_words(self)
        names = " against ".join(group.name for group in reversed(self.groups))
        return f"<Comparison of {names}: {word}; {counts}>"

    def __str__(self) -> str:
        return as_text(render(self))

    def _repr_html_(self) -> str:
        return table_html(comparison_page(self), "verdicts-0", repr(self))

    def table(self) -> pa.Table:
        """A row per class and version: its times, their ratio with its interval, and the verdict."""
        return pa.Table.from_pylist(
            [
                {"baseline": pair["baseline"], "other": pair["other"], **one}
                for pair in comparison_to_json(self)["pairs"]
                for one in pair["classes"]
            ]
        )

    def plot(self, name: str | None = None) -> OfflinePage:
        """A picture of its report; None: the ratios of all classes with their intervals.

        Raises:
            InputError: there is no such picture; the error names those there are.
        """
        return picture_of(comparison_page(self), name, "ratios-0")


def classes_table(summary: RunSummary) -> pa.Table:
    """A row per class of collectives, as the table of a run shows it, unrounded."""
    return pa.Table.from_pylist([row_to_json(CLASS_COLUMNS, one) for one in summary.classes])
