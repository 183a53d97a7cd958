"""The command lines of README and docs: blocks that are fenced as `console` or `sh`, and indented ones."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.command import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:(?<=\n\n)|(?<=\n```\n))((?: {4}.*\n|\n(?= {4}))+)")
_UNMARKED = re.compile(r"charkha [a-z-]|tcpdump -|ib_\w+ ")
"""Commands without a prompt."""
_COMMENT = re.compile(r"(?<=\S)(?: {2,}| +# ).*$")


@dataclass(frozen=True, slots=True)
class Block:
    """Commands that stand together.

    Attributes:
        page: where.
        number: of the blocks of the page, from 1.
        lines: its command lines, without prompt and comment; a continued line is one.
    """

    page: Path
    number: int
    lines: tuple[str, ...]

    @property
    def name(self) -> str:
        """For the test's id."""
        return f"{self.page.name}-{self.number}"


def blocks(page: Path) -> Iterator[Block]:
    """Those of a page that have a command, in their order."""
    text = page.read_text(encoding="utf-8")
    fenced = [(one.start(), one[2]) for one in _FENCED.finditer(text) if one[1] in ("console", "sh")]
    outside = _FENCED.sub(lambda one: re.sub(r"[^\n]", "-", one[0]), text)
    indented = [(one.start(), re.sub(r"^ {4}", "", one[1], flags=re.MULTILINE)) for one in _INDENTED.finditer(outside)]
    number = 0
    for _, block in sorted([*fenced, *indented]):
        lines = tuple(_lines(block))
        if lines:
            number += 1
            yield Block(page, number, lines)


def _lines(block: str) -> Iterator[str]:
    in_document = None
    for line in block.replace("\\\n", " ").splitlines():
        if in_document is not None:
            in_document = None if line == in_document else in_document
            continue
        found = re.search(r"<<'?(\w+)'?$", line)
        in_document = found[1] if found else None
        is_command = line.startswith("$ ") or _UNMARKED.match(line)
        if is_command:
            yield _COMMENT.sub("", re.sub(r" {2,}(?=-)", " ", line.removeprefix("$ "))).strip()


def charkha_words(line: str) -> Iterator[list[str]]:
    """The words of each `charkha` on a command line, as its parser gets them."""
    for part in re.split(r"&&|&$|\|\||;|\|(?! )", line):
        words = shlex.split(part.split(" | ")[0].split(" > ")[0].split(" < ")[0])
        at = next((n for n, word in enumerate(words) if word.rpartition("/")[2] == "charkha"), None)
        if at is not None:
            yield words[at + 1 :]
