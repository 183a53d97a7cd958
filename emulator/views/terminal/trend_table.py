"""Several versions side by side for a terminal: a row per class, a column per version, each against the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from rich.console import Group, RenderableType
from rich.text import Text

from emulator.results.comparison.verdicts import ClassComparison, Comparison, Verdict
from emulator.results.statistics.samples.classes import ClassKey
from emulator.views.columns.columns import Column, explain
from emulator.views.columns.figures import NONE, duration_cell
from emulator.views.terminal.comparison_table import STYLES, forced_lines
from emulator.views.terminal.table import FittedTable, facts_grid
from emulator.views.text.comparison_text import fact_lines, ratio_text, statistic_name, trend_rows

MARKS = {Verdict.SLOWER: "slower", Verdict.FASTER: "faster", Verdict.NO_DIFFERENCE: "=", Verdict.INCONCLUSIVE: "?"}
"""Verdict -> what follows a ratio."""
_TrendRow: TypeAlias = tuple[ClassKey, Sequence[ClassComparison | None]]


def _columns(names: Sequence[str], statistic: str) -> list[Column[_TrendRow]]:
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
                cell=_cell(at),
                style=_style(at),
            )
            for at, name in enumerate(others)
        ),
    ]


def _cell(at: int) -> Callable[[_TrendRow], str]:
    def cell(row: _TrendRow) -> str:
        one = row[1][at]
        return NONE if one is None or one.effect is None else f"{ratio_text(one.effect)} {MARKS[one.verdict]}"

    return cell


def _style(at: int) -> Callable[[_TrendRow], str]:
    def style(row: _TrendRow) -> str:
        one = row[1][at]
        return "" if one is None or one.effect is None else STYLES[one.verdict]

    return style


EXPLAIN = explain(_columns(("FIRST", "NEXT"), "p50"), title="FIRST is the first group, NEXT each of the others:")


def render_trend(comparison: Comparison) -> RenderableType:
    """The trend for a console."""
    names = [group.name for group in comparison.groups]
    table = FittedTable(_columns(names, statistic_name(comparison.rules)), list(trend_rows(comparison)))
    legend = f"Ratios to {names[0]}; = no difference shown, ? inconclusive."
    forced = [*forced_lines(comparison), Text()] if comparison.is_forced else []
    return Group(*forced, table, Text(legend, style="dim"), Text(), facts_grid(fact_lines(comparison)))
