"""The verdict on a run as a JSON document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from emulator.results.statistics.metric import IterationKey
from emulator.results.statistics.samples.classes import ClassKey
from emulator.results.statistics.traffic.flow_figures import FlowKey
from emulator.results.verdict.judge import Finding, Verdict
from emulator.views.text.verdict_text import headline


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """Outcome (null without rules), one line of text, and every check with its value in the unit of its metric."""
    return {
        "outcome": None if verdict.rules is None else verdict.outcome.value,
        "text": headline(verdict),
        "rules": verdict.rules,
        "is_example": verdict.is_example,
        "tester": {"calibrated": verdict.tester.is_calibrated, "problems": list(verdict.tester.problems)},
        "checks": [_check(one) for one in verdict.findings],
    }


def _check(one: Finding) -> dict[str, Any]:
    metric, bound, subject = one.rule.metric, one.rule.bound, one.subject
    return {
        "outcome": one.outcome.value,
        "metric": metric.name,
        "unit": metric.unit.value,
        "device": subject if isinstance(subject, str) else None,
        "iteration": subject.number if isinstance(subject, IterationKey) else None,
        "flow": subject._asdict() if isinstance(subject, FlowKey) else None,
        "class": asdict(subject) if isinstance(subject, ClassKey) else None,
        "value": one.value,
        "perfect": one.perfect,
        "bound": bound.kind,
        "limit": bound.limit,
        "reason": one.reason,
        "broken": one.broken,
        "of": one.of,
    }
