"""The verdict on a run for a terminal: the answer, then a row per check."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from emulator.results.statistics.metrics import METRICS
from emulator.results.verdict.judge import Verdict
from emulator.views.columns.columns import explain
from emulator.views.columns.result_columns import STYLES, VERDICT_COLUMNS
from emulator.views.terminal.table import FittedTable
from emulator.views.verdict_text import headline, words

EXPLAIN = explain(VERDICT_COLUMNS, title="Checks of the verdict, worst first:")


def render_headline(verdict: Verdict) -> Text:
    """The answer on one line."""
    word, text = words(verdict)
    return (
        Text(headline(verdict))
        if verdict.rules is None
        else Text.assemble((word, STYLES[verdict.outcome]), f": {text}")
    )


def render(verdict: Verdict) -> RenderableType:
    """The answer and every check."""
    return Group(render_headline(verdict), *render_findings(verdict))


def render_findings(verdict: Verdict) -> Sequence[RenderableType]:
    """A table of every check, below an empty line; nothing without rules."""
    return [Text(), FittedTable(VERDICT_COLUMNS, verdict.findings)] if verdict.findings else []


def metrics_table() -> str:
    """Every metric with its unit, scope and meaning, as plain text."""
    width = max(map(len, METRICS))
    return "\n".join(
        f"  {one.name:<{width}}  {one.scope.value:<9}  {one.unit.value:<7}  {one.meaning}" for one in METRICS.values()
    )
