"""Columns of the table of checks, for terminals and reports."""

from __future__ import annotations

from emulator.results.verdict.judge import Finding, Outcome
from emulator.views.columns.columns import Column, bold
from emulator.views.columns.figures import NONE
from emulator.views.text.verdict_text import describe_subject, perfect_cell, value_cell

STYLES = {
    Outcome.PASS: "bold green",
    Outcome.FAIL: "bold red",
    Outcome.TESTER_LIMITED: "bold yellow",
    Outcome.UNDECIDED: "bold yellow",
}
COLUMNS: tuple[Column[Finding], ...] = (
    Column(
        "verdict",
        "PASS, FAIL, TESTER-LIMITED (the tester determined the value, not the device) or UNDECIDED (not known)",
        cell=lambda one: one.outcome.value,
        is_number=False,
        style=lambda one: STYLES[one.outcome],
    ),
    Column(
        "metric",
        "name of the metric: `charkha runs judge --metrics` explains it",
        cell=lambda one: one.rule.metric.name,
        is_number=False,
    ),
    Column(
        "of",
        "class (collective, ranks, size and algorithm), device, or the worst iteration or flow; a dash: the whole run",
        cell=lambda one: describe_subject(one.subject).removeprefix(" of ") or NONE,
        is_number=False,
        folds=20,
    ),
    Column("value", "what was measured", cell=value_cell, style=bold),
    Column(
        "perfect",
        "what a perfect device would have shown with this tester: the ideal time plus the tester's own",
        cell=perfect_cell,
        is_optional=True,
        sacrifice=2,
    ),
    Column("rule", "the bound", cell=lambda one: str(one.rule.bound), is_number=False),
    Column(
        "reason",
        "why the comparison alone does not decide",
        key="reason",
        is_number=False,
        is_optional=True,
        folds=24,
        sacrifice=1,
    ),
)
