"""A page of results: sections with key figures, tables and charts, rendered as one self-contained HTML file.

The classes here describe the contents, templates/ the appearance. All texts are escaped, and the content security
policy of the page forbids loading anything. Vega-Lite and Vega, which draw pictures in the browser, are packed by
`lab/scripts/generate_vega.py` and embedded; `vega/licences.txt` has the licences of what they contain.
"""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from emulator.views.columns.columns import Column, Header, Row, filled
from emulator.views.columns.figures import NONE
from emulator.views.html.page.pictures import Picture
from emulator.visible import visible

Cells: TypeAlias = Sequence[str]


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """A key figure.

    Attributes:
        value: with its unit; a dash if it was not measured.
        about: how it was obtained: statistic, n, spread, whole run or one iteration.
        is_leading: shown large.
    """

    name: str
    value: str
    about: str = ""
    is_leading: bool = False


@dataclass(frozen=True, slots=True)
class Figures:
    """Key figures side by side."""

    identifier: str
    figures: Sequence[KeyFigure]


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of a whole: `share` of it, 0 to 1; `style` is the class of its colour in page.css."""

    name: str
    value: str
    share: float
    style: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A stacked bar: a whole and its parts."""

    identifier: str
    title: str
    about: str
    parts: Sequence[BarPart]


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        identifier: its anchor.
        columns: headers; those with a meaning are explained below the table.
        rows: a text per column.
        about: a note below the table.
        is_folded: closed until the reader opens it.
        links: where the first cell of each row leads, "" for nowhere; empty: none leads anywhere.
    """

    identifier: str
    caption: str
    columns: Sequence[Header]
    rows: Sequence[Cells]
    about: str = ""
    is_folded: bool = False
    links: Sequence[str] = ()


def link_to(path: Path, place: Path) -> str:
    """A link of a page in the folder `place` to a file; "" if there is no such file."""
    return quote(os.path.relpath(path, place)) if path.is_file() else ""


def table_of(
    identifier: str,
    caption: str,
    columns: Sequence[Column[Row]],
    rows: Sequence[Row],
    about: str = "",
    *,
    is_folded: bool = False,
    links: Sequence[str] = (),
) -> Table:
    """A table whose cells are made by its columns; optional columns without a value are left out."""
    shown = filled(columns, rows)
    cells = [[one.cell(row) for one in shown] for row in rows]
    return Table(identifier, caption, shown, cells, about, is_folded, links)


@dataclass(frozen=True, slots=True)
class Facts:
    """(name, fact) pairs."""

    identifier: str
    title: str
    facts: Sequence[tuple[str, str]]
    about: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; `tone` is plain, note (something was not measured) or warning."""

    identifier: str
    text: str
    tone: str = "plain"


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart and the numbers behind it.

    Attributes:
        about: quantity, unit and n.
        description: alternative text: what the axes show and what stands out.
        table: its numbers, folded below the chart.
        choice_title: label of the select box, if the picture has choices.
        legend: what its colours stand for, with their share; empty: the picture says it itself.
        is_wide: uses the whole width of the page.
    """

    identifier: str
    title: str
    about: str
    description: str
    picture: Picture
    table: Table | None = None
    choice_title: str = ""
    is_wide: bool = False
    legend: Sequence[BarPart] = ()


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawing; `template` makes its SVG from `drawing`."""

    identifier: str
    title: str
    about: str
    description: str
    template: str
    drawing: Any
    table: Table | None = None
    is_wide: bool = True


Block: TypeAlias = Figures | Bar | Table | Facts | Text | Chart | Drawing


@dataclass(frozen=True, slots=True)
class PageSection:
    """A section; `identifier` is its anchor. The section at the top of the page has no title."""

    identifier: str
    title: str
    blocks: Sequence[Block]
    about: str = ""
    is_wide: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The verdict, above everything else; `tone` is good, bad or open."""

    word: str
    text: str
    tone: str


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page.

    Attributes:
        sentence: the result in a few sentences.
        labels: short facts below the heading.
        warnings: what no reader may overlook, such as: aborted, scaled.
        footer: origin of the page.
        is_live: the run has not ended yet.
        answer: the verdict; None: the page has none.
    """

    title: str
    heading: str
    sentence: str
    labels: Sequence[str]
    warnings: Sequence[str]
    sections: Sequence[PageSection]
    footer: str = ""
    is_live: bool = False
    answer: Answer | None = None

    @property
    def pictures(self) -> Mapping[str, Picture]:
        """Identifier of the chart -> its picture."""
        charts = [one for section in self.sections for one in section.blocks if isinstance(one, Chart)]
        return {one.identifier: one.picture for one in charts}


def render(page: Page, *, with_library: bool = True, follows: bool = False) -> str:
    """The page as HTML.

    Args:
        with_library: include the JavaScript that draws charts; False for a browser that has it already.
        follows: the page asks its server for newer versions of itself.
    """
    pictures = packed(json.dumps({name: one.document() for name, one in page.pictures.items()}, allow_nan=False))
    library = packed_library() if with_library else ""
    return (
        _environment().get_template("page.html").render(page=page, pictures=pictures, library=library, follows=follows)
    )


def only(page: Page, identifier: str) -> Page:
    """The page with one of its charts and nothing else.

    Raises:
        KeyError: it has no such chart.
    """
    charts = {one.identifier: one for section in page.sections for one in section.blocks if isinstance(one, Chart)}
    chart = charts[identifier]
    section = PageSection(f"{identifier}-section", "", [replace(chart, is_wide=True)], is_wide=True)
    return Page(f"{chart.title} · {page.title}", page.heading, "", (), (), [section])


def table_html(table: Table) -> str:
    """A table as a part of someone else's page."""
    return str(_environment().get_template("blocks.html").module.plain_table(table))  # type: ignore[attr-defined]


@cache
def _environment() -> jinja2.Environment:
    loader = jinja2.PackageLoader("emulator.views.html.page")
    environment = jinja2.Environment(
        loader=loader,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=shown,
    )
    environment.globals["style"] = Markup(_source(environment, "page.css"))
    environment.globals["script"] = Markup(_source(environment, "page.js"))
    environment.globals["none_cell"] = NONE
    return environment


def _source(environment: jinja2.Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def shown(value: Any) -> Any:
    """What a template shows of a value; what is marked as HTML stays as it is."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def packed(text: str, *, level: int = 6) -> str:
    """Compress with zlib and encode in base64; page.js unpacks it."""
    return base64.b64encode(zlib.compress(text.encode(), level)).decode()


VEGA_LITE = "6.4"


@cache
def packed_library() -> str:
    """The JavaScript, compressed with zlib and encoded in base64; a page unpacks it."""
    file = resources.files("emulator.views.html.page") / "vega" / f"vega-lite-{VEGA_LITE}.js.zlib.b64"
    return file.read_text(encoding="ascii")
