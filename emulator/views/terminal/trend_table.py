"""Several versions side by side: a row per class, a column per version, each against the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from emulator.comparison.verdicts import ClassComparison, Comparison, Verdict
from emulator.statistics.classes import ClassKey
from emulator.views.terminal.comparison_table import (
    STYLES,
    duration_text,
    fact_lines,
    facts_grid,
    forced_lines,
    statistic_name,
)
from emulator.views.terminal.summary_table import NONE

MARKS = {Verdict.SLOWER: "slower", Verdict.FASTER: "faster", Verdict.NO_DIFFERENCE: "=", Verdict.INCONCLUSIVE: "?"}
"""What stands behind a ratio."""


def trend_rows(comparison: Comparison) -> Iterator[tuple[ClassKey, Sequence[ClassComparison | None]]]:
    """(class, its comparison in every pair, None where it has none), in the order of the first pair that has it."""
    found = [{one.key: one for one in pair.classes} for pair in comparison.pairs]
    for key in dict.fromkeys(key for pair in found for key in pair):
        yield key, [pair.get(key) for pair in found]


def render_trend(comparison: Comparison) -> RenderableType:
    """The trend for a console."""
    statistic = statistic_name(comparison.rules)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("class", vertical="bottom")
    table.add_column(f"{comparison.groups[0].name}\n{statistic}", justify="right", no_wrap=True)
    for group in comparison.groups[1:]:
        table.add_column(f"{group.name}\nratio", justify="right", no_wrap=True)
    for key, pairs in trend_rows(comparison):
        first = next(one for one in pairs if one is not None)
        table.add_row(str(key), duration_text(first.baseline.median_ns), *map(_cell, pairs))
    legend = f"Ratios to {comparison.groups[0].name}; = no difference shown, ? inconclusive."
    forced = [*forced_lines(comparison), Text()] if comparison.is_forced else []
    return Group(*forced, table, Text(legend, style="dim"), Text(), facts_grid(fact_lines(comparison)))


def _cell(one: ClassComparison | None) -> Text:
    if one is None or one.effect is None:
        return Text(NONE)
    return Text(f"{one.effect.ratio:.3f} {MARKS[one.verdict]}", style=STYLES[one.verdict])
