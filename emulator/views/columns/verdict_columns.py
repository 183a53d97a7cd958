"""Columns of the table of checks, for terminals and reports."""

from __future__ import annotations

from dataclasses import asdict

from emulator.results.statistics.metric import IterationKey
from emulator.results.statistics.samples.classes import ClassKey
from emulator.results.statistics.traffic.flow_figures import FlowKey
from emulator.results.verdict.judge import Finding, Outcome
from emulator.views.columns.columns import Column, bold, unshown
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
        key="outcome",
        value=lambda one: one.outcome.value,
        is_number=False,
        style=lambda one: STYLES[one.outcome],
    ),
    Column(
        "metric",
        "name of the metric: `charkha runs judge --metrics` explains it",
        key="metric",
        value=lambda one: one.rule.metric.name,
        is_number=False,
    ),
    unshown("unit", lambda one: one.rule.metric.unit.value),
    unshown("device", lambda one: one.subject if isinstance(one.subject, str) else None),
    unshown("iteration", lambda one: one.subject.number if isinstance(one.subject, IterationKey) else None),
    unshown("flow", lambda one: one.subject._asdict() if isinstance(one.subject, FlowKey) else None),
    unshown("class", lambda one: asdict(one.subject) if isinstance(one.subject, ClassKey) else None),
    Column(
        "of",
        "class (collective, ranks, size and algorithm), device, or the worst iteration or flow; a dash: the whole run",
        cell=lambda one: describe_subject(one.subject).removeprefix(" of ") or NONE,
        is_number=False,
        folds=20,
    ),
    Column("value", "what was measured", key="value", cell=value_cell, style=bold),
    Column(
        "perfect",
        "what a perfect device would have shown with this tester: the ideal time plus the tester's own",
        key="perfect",
        cell=perfect_cell,
        is_optional=True,
        sacrifice=2,
    ),
    Column(
        "rule",
        "the bound",
        key="bound",
        value=lambda one: one.rule.bound.kind,
        cell=lambda one: str(one.rule.bound),
        is_number=False,
    ),
    unshown("limit", lambda one: one.rule.bound.limit),
    Column(
        "reason",
        "why the comparison alone does not decide",
        key="reason",
        is_number=False,
        is_optional=True,
        folds=24,
        sacrifice=1,
    ),
    unshown("broken"),
    unshown("of"),
)
