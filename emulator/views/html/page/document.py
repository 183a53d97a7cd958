"""A page of results: sections of key figures, tables and pictures, as one HTML file that needs nothing else.

What is on a page is said with the classes here; how it looks is in templates/. Everything that a page shows of a trace
or a file is text: it is escaped, and the page forbids itself to load anything from anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, TypeAlias

import jinja2
from markupsafe import Markup

from emulator.views.columns import Column, Header, Row, filled
from emulator.views.html.page.library import packed_library
from emulator.views.html.page.packing import packed
from emulator.views.html.page.pictures import Picture

Cells: TypeAlias = Sequence[str]


@dataclass(frozen=True, slots=True)
class Figure:
    """A key figure.

    Attributes:
        name: what it is.
        value: with its unit; a dash where it was not measured.
        about: of what it is made: statistic, n, spread, whole run or an iteration.
        is_leading: shown large.
    """

    name: str
    value: str
    about: str = ""
    is_leading: bool = False


@dataclass(frozen=True, slots=True)
class Figures:
    """Key figures side by side."""

    KIND: ClassVar[str] = "figures"
    identifier: str
    figures: Sequence[Figure]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar: `share` of the whole from 0 to 1, `style` one of compute, overlapped, exposed, idle."""

    name: str
    value: str
    share: float
    style: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A whole and its parts, in one line."""

    KIND: ClassVar[str] = "bar"
    identifier: str
    title: str
    about: str
    parts: Sequence[Part]


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        identifier: its anchor.
        caption: title of the table.
        columns: headers; those with a meaning are explained below the table.
        rows: a text per column.
        about: what the reader must know of the whole table.
        is_folded: the reader opens it.
    """

    KIND: ClassVar[str] = "table"
    identifier: str
    caption: str
    columns: Sequence[Header]
    rows: Sequence[Cells]
    about: str = ""
    is_folded: bool = False


def table_of(
    identifier: str,
    caption: str,
    columns: Sequence[Column[Row]],
    rows: Sequence[Row],
    about: str = "",
    *,
    is_folded: bool = False,
) -> Table:
    """A table whose cells are made by its columns; optional columns without a value are left out."""
    shown = filled(columns, rows)
    cells = [[one.cell(row) for one in shown] for row in rows]
    return Table(identifier, caption, shown, cells, about, is_folded)


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and what they are, as text."""

    KIND: ClassVar[str] = "facts"
    identifier: str
    title: str
    facts: Sequence[tuple[str, str]]
    about: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; `tone` is plain, note (something was not observed) or warning."""

    KIND: ClassVar[str] = "text"
    identifier: str
    text: str
    tone: str = "plain"


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture and the numbers behind it.

    Attributes:
        title: what is seen.
        about: quantity, unit and n, in a sentence.
        description: for those who cannot see it: what is on the axes and what stands out.
        picture: how it is drawn.
        table: the numbers; folded away under the picture.
        choice_title: of the field that the reader chooses by, where the picture has one.
        is_wide: takes the whole width of the page.
    """

    KIND: ClassVar[str] = "chart"
    identifier: str
    title: str
    about: str
    description: str
    picture: Picture
    table: Table | None = None
    choice_title: str = ""
    is_wide: bool = False


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawing whose SVG is made by a template: `template` with `drawing`."""

    KIND: ClassVar[str] = "drawing"
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
class Section:
    """A section; one without a title is the top of the page. `identifier` is its anchor."""

    identifier: str
    title: str
    blocks: Sequence[Block]
    about: str = ""
    is_wide: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page.

    Attributes:
        title: of the window.
        heading: the largest line.
        sentence: what the reader should know after ten seconds.
        labels: short facts under the heading.
        warnings: what nobody may overlook: aborted, scaled.
        sections: in order.
        footer: where the page comes from.
        is_live: it follows a run that goes on.
    """

    title: str
    heading: str
    sentence: str
    labels: Sequence[str]
    warnings: Sequence[str]
    sections: Sequence[Section]
    footer: str = ""
    is_live: bool = False

    @property
    def pictures(self) -> Mapping[str, Picture]:
        """Identifier of its chart → picture."""
        charts = [one for section in self.sections for one in section.blocks if isinstance(one, Chart)]
        return {one.identifier: one.picture for one in charts}


def render(page: Page, *, with_library: bool = True, follows: bool = False) -> str:
    """The page as HTML.

    Args:
        page: what is on it.
        with_library: False leaves out what draws pictures, for a reader that has it already.
        follows: the page asks the server it came from for newer versions of itself.
    """
    pictures = packed(json.dumps({name: one.document() for name, one in page.pictures.items()}, allow_nan=False))
    library = packed_library() if with_library else ""
    return (
        _environment().get_template("page.html").render(page=page, pictures=pictures, library=library, follows=follows)
    )


@cache
def _environment() -> jinja2.Environment:
    loader = jinja2.PackageLoader("emulator.views.html.page")
    environment = jinja2.Environment(
        loader=loader,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.globals["style"] = Markup(_source(environment, "page.css"))
    environment.globals["script"] = Markup(_source(environment, "page.js"))
    return environment


def _source(environment: jinja2.Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _shown(value: Any) -> Any:
    """What cannot be seen, as an escape: a name must not look like another, nor turn the text around."""
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in value)
