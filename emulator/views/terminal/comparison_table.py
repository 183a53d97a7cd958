"""A comparison of groups of runs for a terminal: effect and interval first, then the verdict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rich.console import Group, RenderableType
from rich.text import Text

from emulator.results.comparison.causes import causes
from emulator.results.comparison.verdicts import ClassComparison, Comparison, PairComparison, Rules, Verdict
from emulator.results.statistics.samples.classes import JCT
from emulator.units import format_size
from emulator.views.columns.columns import Column, explain
from emulator.views.columns.figures import NONE
from emulator.views.terminal.table import FittedTable, facts_grid
from emulator.views.text.comparison_text import cause_columns, fact_lines, pair_columns, runs_text
from emulator.visible import visible

STYLES = {
    Verdict.SLOWER: "bold red",
    Verdict.FASTER: "bold green",
    Verdict.NO_DIFFERENCE: "",
    Verdict.INCONCLUSIVE: "yellow",
}
_CLASS: tuple[Column[ClassComparison], ...] = (
    Column(
        "collective",
        "kind of communication; JCT is the whole iteration",
        cell=lambda one: "JCT" if one.key.collective == JCT else one.key.collective,
        is_number=False,
    ),
    Column("ranks", "ranks in the process group; 1 for storage", cell=lambda one: str(one.key.members)),
    Column(
        "size",
        "array size, counted as in nccl-tests",
        cell=lambda one: NONE if one.key.collective == JCT else format_size(one.key.size_bytes),
    ),
    Column(
        "algorithm", "collective algorithm", cell=lambda one: one.key.algorithm or NONE, is_number=False, sacrifice=1
    ),
)


def _columns(rules: Rules, *, baseline: str, other: str) -> list[Column[ClassComparison]]:
    pair = pair_columns(rules, baseline=baseline, other=other)
    pair["verdict"] = replace(pair["verdict"], folds=16, style=lambda one: STYLES[one.verdict])
    return [*_CLASS, *pair.values()]


EXPLAIN = explain(_columns(Rules(), baseline="A", other="B"), title="A is the baseline, B the group compared with it:")


def render(comparison: Comparison) -> RenderableType:
    """The comparison for a console."""
    parts: list[RenderableType] = []
    if comparison.is_forced:
        parts += [*forced_lines(comparison), Text()]
    for pair in comparison.pairs:
        parts += [_headline(pair), Text(), _table(pair, comparison.rules), Text()]
        if found := causes(pair.baseline, pair.other):
            parts += [FittedTable(cause_columns(**_names(pair)), found), Text()]
    return Group(*parts, facts_grid(fact_lines(comparison)))


def forced_lines(comparison: Comparison) -> Iterator[Text]:
    """The warning above a forced comparison, and what makes its runs incomparable."""
    yield Text("FORCED: these runs are not comparable; do not rely on any verdict below.", style="bold red")
    for one in comparison.comparability.refused:
        yield Text(visible(f"  {one}"), style="red")


def _headline(pair: PairComparison) -> Text:
    other, baseline = pair.other, pair.baseline
    return Text.assemble((other.name, "bold"), " against ", (baseline.name, "bold"), f": {runs_text(pair)}")


def _table(pair: PairComparison, rules: Rules) -> RenderableType:
    if not pair.classes:
        return Text("No class was measured in both groups.")
    return FittedTable(_columns(rules, **_names(pair)), pair.classes)


def _names(pair: PairComparison) -> dict[str, str]:
    """What the groups are called in headers."""
    names = (pair.baseline.name, pair.other.name)
    baseline, other = names if set(names) == {"A", "B"} else ("A", "B")
    return {"baseline": baseline, "other": other}
