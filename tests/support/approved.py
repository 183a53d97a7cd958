"""Outputs that somebody has read and approved: whole pages as text, held to files.

After a change that is meant, `CHARKHA_APPROVE=1 pytest …` writes them anew; read the difference before you commit it.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from emulator.views.html.page.document import Bar, Block, Chart, Drawing, Facts, Figures, Page, PageSection, Table, Text
from tests.support.command import ROOT

FOLDER = ROOT / "tests" / "data" / "approved"
ROWS = 12
"""Of a table or a data set, at most."""


def approved(name: str, text: str) -> None:
    """Hold a text to the approved one of this name."""
    path = FOLDER / f"{name}.txt"
    if os.environ.get("CHARKHA_APPROVE"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def json_text(document: Any) -> str:
    """A document as text, with seven digits of a number that is not whole."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: plain(one) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [plain(one) for one in value]
        return float(f"{value:.7g}") if isinstance(value, float) else value

    return json.dumps(plain(document), indent=1, allow_nan=False) + "\n"


def page_text(page: Page) -> str:
    """What a page says and draws, a line each."""
    return "\n".join(_page(page)) + "\n"


def _page(page: Page) -> Iterator[str]:
    yield f"# {page.heading} ({page.title})"
    if page.answer is not None:
        yield f"{page.answer.word} [{page.answer.tone}] {page.answer.text}"
    yield page.sentence
    yield " · ".join(page.labels)
    yield from (f"! {one}" for one in page.warnings)
    for section in page.sections:
        yield from _section(section)
    yield f"\n{page.footer}"


def sections_text(cases: Mapping[str, Iterable[PageSection]]) -> str:
    """What sections say and draw in each case, below its name."""
    texts = ([f"== {name}", *(line for one in sections for line in _section(one))] for name, sections in cases.items())
    return "\n\n".join("\n".join(lines) for lines in texts) + "\n"


def _section(section: PageSection) -> Iterator[str]:
    yield f"\n## {section.title}"
    if section.about:
        yield section.about
    for block in section.blocks:
        yield from _block(block)


def _block(block: Block) -> Iterator[str]:
    title = getattr(block, "title", getattr(block, "caption", ""))
    folded = " (folded)" if getattr(block, "is_folded", False) else ""
    yield f"\n[{block.identifier}{folded}] {title}".rstrip()
    if about := getattr(block, "about", ""):
        yield about
    match block:
        case Figures():
            yield from _lines(("*" * one.is_leading + one.name, one.value, one.about) for one in block.figures)
        case Bar():
            yield from _lines((one.name, one.value, f"{one.share:.3f}") for one in block.parts)
        case Table():
            yield from _table(block)
        case Facts():
            yield from _lines(block.facts)
        case Text():
            yield f"{block.tone}: {block.text}"
        case Chart() | Drawing():
            yield f"Alternative text: {block.description}"
            if isinstance(block, Chart):
                yield from _lines((one.name, one.value) for one in block.legend)
                yield from _lines(("choice", *one) for one in block.picture.choices)
                for name, columns in block.picture.data.items():
                    yield from _data(name, columns)
            if block.table is not None:
                yield from _table(block.table)


def _table(table: Table) -> Iterator[str]:
    yield from _lines([[one.name.replace("\n", " ") for one in table.columns]])
    links = table.links or [""] * len(table.rows)
    rows = [[*row, link] if link else row for row, link in zip(table.rows, links, strict=True)]
    yield from _some(rows)


def _data(name: str, columns: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    yield f"  {name}: {', '.join(columns)}"
    yield from _some([list(map(_number, row)) for row in zip(*columns.values(), strict=True)])


def _some(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield from _lines(islice(rows, ROWS))
    if len(rows) > ROWS:
        yield f"  … {len(rows)} rows"


def _lines(rows: Any) -> Iterator[str]:
    yield from (f"  {' | '.join(row)}".rstrip() for row in rows)


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
