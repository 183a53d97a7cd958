"""Charts as Vega-Lite documents (pictures/*.vl.json) with their data as columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, TypeAlias

Values: TypeAlias = Sequence[str | int | float | bool | None]
Columns: TypeAlias = Mapping[str, Values]
"""Column name -> values, all of the same length."""


class Rows:
    """Collects the rows of a data set as columns."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {}

    def add(self, **row: str | float | bool | None) -> None:
        """Append a row; all rows have the same columns."""
        for name, value in row.items():
            self.columns.setdefault(name, []).append(value)

    def extend(self, count: int, **columns: Any) -> None:
        """Append `count` rows: a list per column, or one value for all rows."""
        for name, value in columns.items():
            self.columns.setdefault(name, []).extend(value if isinstance(value, list) else [value] * count)


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart and its data.

    Attributes:
        document_name: Vega-Lite document in pictures/, without its suffix.
        data: name of a data set in the document -> its columns.
        choice: a column; the reader selects one of its values, and only rows with this value are drawn.
        choices: (value, label) for the select box, in order; the first one is selected initially.
    """

    document_name: str
    data: Mapping[str, Columns]
    choice: str = ""
    choices: Sequence[tuple[str, str]] = ()

    @property
    def has_span(self) -> bool:
        """Whether the reader can zoom its time, and save what is in it."""
        return any("params" in layer for layer in vega_lite(self.document_name).get("layer", ()))

    def document(self) -> dict[str, Any]:
        """Document, data and choice as JSON for page.js."""
        return {
            "document": vega_lite(self.document_name),
            "data": {
                name: {key: list(values) for key, values in columns.items()} for name, columns in self.data.items()
            },
            "choice": self.choice,
        }


@cache
def vega_lite(name: str) -> Mapping[str, Any]:
    """A Vega-Lite document of this package."""
    path = resources.files("emulator.views.html.page").joinpath("pictures", f"{name}.vl.json")
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document
