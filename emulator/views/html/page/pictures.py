"""Pictures as Vega-Lite documents (pictures/*.vl.json) and the columns that are drawn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, TypeAlias

Values: TypeAlias = Sequence[str | int | float | bool | None]
Columns: TypeAlias = Mapping[str, Values]
"""Header name → values; all of one length."""


class Rows:
    """Rows of a data set, collected as columns."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {}

    def add(self, **row: str | float | bool | None) -> None:
        """Append a row; each has the same columns."""
        for name, value in row.items():
            self.columns.setdefault(name, []).append(value)

    def extend(self, count: int, **columns: Any) -> None:
        """Append so many rows: lists by column, or one value for all of them."""
        for name, value in columns.items():
            self.columns.setdefault(name, []).extend(value if isinstance(value, list) else [value] * count)


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture.

    Attributes:
        document_name: of the Vega-Lite document in pictures/, without its ending.
        data: name of a data set in the document → its rows as columns.
        choice: a column; the reader chooses one of its values, and only rows with it are drawn.
        choices: (value, label) of each, in order; the first is shown at first.
    """

    document_name: str
    data: Mapping[str, Columns]
    choice: str = ""
    choices: Sequence[tuple[str, str]] = ()

    def document(self) -> dict[str, Any]:
        """What the page needs to draw it, as JSON: document, data and choice."""
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
