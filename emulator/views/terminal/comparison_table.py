"""A comparison for a terminal: effect and interval first, then the verdict; or several versions side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from rich.console import Group, RenderableType
from rich.text import Text

from emulator.results.comparison.causes import causes
from emulator.results.comparison.verdicts import (
    ClassComparison,
    ClassVerdict,
    ComparisonRules,
    GroupComparison,
    PairComparison,
)
from emulator.results.statistics.samples.classes import ClassKey
from emulator.views.columns.columns import Column, explain, paragraphs
from emulator.views.columns.comparison_columns import (
    STYLES,
    cause_columns,
    ratio_text,
    statistic_name,
    terminal_columns,
)
from emulator.views.columns.figures import NONE, duration_cell
from emulator.views.comparison_text import fact_lines, runs_text, trend_rows
from emulator.views.terminal.table import FittedTable, facts_grid
from emulator.visible import visible

_LETTERS = {"baseline": "A", "other": "B"}
MARKS = {
    ClassVerdict.SLOWER: "slower",
    ClassVerdict.FASTER: "faster",
    ClassVerdict.NO_DIFFERENCE: "=",
    ClassVerdict.INCONCLUSIVE: "?",
}
"""Verdict -> what follows a ratio."""
_TrendRow: TypeAlias = tuple[ClassKey, Sequence[ClassComparison | None]]


def render(comparison: GroupComparison) -> RenderableType:
    """The comparison for a console."""
    parts: list[RenderableType] = []
    if comparison.is_forced:
        parts += [*forced_lines(comparison), Text()]
    for pair in comparison.pairs:
        parts += [_headline(pair), Text(), _table(pair, comparison.rules), Text()]
        if found := causes(pair.baseline, pair.other):
            parts += [FittedTable(cause_columns(**_names(pair)), found), Text()]
    return Group(*parts, facts_grid(fact_lines(comparison)))


def forced_lines(comparison: GroupComparison) -> Iterator[Text]:
    """The warning above a forced comparison, and what makes its runs incomparable."""
    yield Text("FORCED: these runs are not comparable; do not rely on any verdict below.", style="bold red")
    for one in comparison.comparability.refused:
        yield Text(visible(f"  {one}"), style="red")


def _headline(pair: PairComparison) -> Text:
    other, baseline = pair.other, pair.baseline
    return Text.assemble((other.name, "bold"), " against ", (baseline.name, "bold"), f": {runs_text(pair)}")


def _table(pair: PairComparison, rules: ComparisonRules) -> RenderableType:
    if not pair.classes:
        return Text("No class was measured in both groups.")
    return FittedTable(terminal_columns(rules, **_names(pair)), pair.classes)


def _names(pair: PairComparison) -> dict[str, str]:
    """What the groups are called in headers."""
    names = {"baseline": pair.baseline.name, "other": pair.other.name}
    return names if set(names.values()) == {"A", "B"} else _LETTERS


def _trend_columns(names: Sequence[str], statistic: str) -> list[Column[_TrendRow]]:
    first, *others = names
    return [
        Column(
            "class",
            "collective, ranks, size and algorithm, or the whole iteration (JCT)",
            cell=lambda row: str(row[0]),
            is_number=False,
            folds=24,
        ),
        Column(
            f"{first}\n{statistic}",
            f"baseline: median over the runs of their {statistic} of cct (JCT for the iteration)",
            cell=lambda row: duration_cell(next(one for one in row[1] if one is not None).baseline.median_ns),
        ),
        *(
            Column(
                f"{name}\nratio",
                "time of this version / time of the baseline; above 1: slower. = no difference shown, ? inconclusive",
                cell=_trend_cell(at),
                style=_trend_style(at),
            )
            for at, name in enumerate(others)
        ),
    ]


def _trend_cell(at: int) -> Callable[[_TrendRow], str]:
    def cell(row: _TrendRow) -> str:
        one = row[1][at]
        return NONE if one is None or one.effect is None else f"{ratio_text(one.effect)} {MARKS[one.verdict]}"

    return cell


def _trend_style(at: int) -> Callable[[_TrendRow], str]:
    def style(row: _TrendRow) -> str:
        one = row[1][at]
        return "" if one is None or one.effect is None else STYLES[one.verdict]

    return style


def render_trend(comparison: GroupComparison) -> RenderableType:
    """The trend for a console."""
    names = [group.name for group in comparison.groups]
    table = FittedTable(_trend_columns(names, statistic_name(comparison.rules)), list(trend_rows(comparison)))
    legend = f"Ratios to {names[0]}; = no difference shown, ? inconclusive."
    forced = [*forced_lines(comparison), Text()] if comparison.is_forced else []
    return Group(*forced, table, Text(legend, style="dim"), Text(), facts_grid(fact_lines(comparison)))


EXPLAIN = paragraphs(
    explain(terminal_columns(ComparisonRules(), **_LETTERS), title="A is the baseline, B the group compared with it:"),
    explain(_trend_columns(("FIRST", "NEXT"), "p50"), title="FIRST is the first group, NEXT each of the others:"),
)
