"""What `compare` returns. In a module of its own, since tables take a while to load."""

from __future__ import annotations

from emulator.results.comparison import verdicts
from emulator.views.terminal.comparison_table import render
from emulator.views.terminal.console import as_text
from emulator.views.text.comparison_text import answer_words


class Comparison(verdicts.GroupComparison):
    """A comparison of two groups of runs: `print` shows its table, and `pairs` has every class with its figures."""

    __slots__ = ()

    def __repr__(self) -> str:
        word, counts = answer_words(self)
        names = " against ".join(group.name for group in reversed(self.groups))
        return f"<Comparison of {names}: {word}; {counts}>"

    def __str__(self) -> str:
        return as_text(render(self))
