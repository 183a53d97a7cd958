"""A comparison as Markdown, for the summary of a CI job or a comment on a change: the verdict first, then a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from emulator.results.comparison.verdicts import GroupComparison, PairComparison
from emulator.views.columns.columns import Column
from emulator.views.columns.comparison_columns import markdown_columns
from emulator.views.text.comparison_text import answer_words, fact_lines, pair_sentence
from emulator.visible import visible

R = TypeVar("R")
_MARKS = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]<>|#"})


def comparison_to_markdown(comparison: GroupComparison) -> str:
    """The comparison in GitHub's Markdown, which GitLab and Jenkins read too."""
    return "\n".join(_lines(comparison)) + "\n"


def _lines(comparison: GroupComparison) -> Iterator[str]:
    word, counts = answer_words(comparison)
    yield f"### {escaped(word)}"
    yield ""
    yield escaped(counts)
    if comparison.is_forced:
        yield ""
        yield "**Forced: these runs are not comparable. Do not rely on these verdicts.**"
    for pair in comparison.pairs:
        yield ""
        yield escaped(pair_sentence(pair))
        yield ""
        yield from _table(pair, comparison)
    yield ""
    yield from (f"- {escaped(name)}: {escaped(fact)}" for name, fact in fact_lines(comparison))


def _table(pair: PairComparison, comparison: GroupComparison) -> Iterator[str]:
    names = {"baseline": visible(pair.baseline.name), "other": visible(pair.other.name)}
    yield from markdown_table(markdown_columns(comparison.rules, **names), pair.classes)


def markdown_table(columns: Sequence[Column[R]], rows: Sequence[R]) -> Iterator[str]:
    """The lines of a table; numbers are aligned to the right."""
    yield _row(column.name for column in columns)
    yield _row(("---:" if column.is_number else "---" for column in columns), is_text=False)
    for row in rows:
        yield _row(column.cell(row) for column in columns)


def _row(cells: Iterator[str], *, is_text: bool = True) -> str:
    return f"| {' | '.join(escaped(cell) if is_text else cell for cell in cells)} |"


def escaped(text: str) -> str:
    """Text that stands as it is in Markdown."""
    return visible(text).translate(_MARKS).replace("\n", " ")
