"""The verdict on a run as a JSON document."""

from __future__ import annotations

from typing import Any

from emulator.results.verdict.judge import Verdict
from emulator.views.columns.columns import row_to_json
from emulator.views.columns.verdict_columns import COLUMNS
from emulator.views.text.verdict_text import headline


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """Outcome (null without rules), one line of text, and every check with its value in the unit of its metric."""
    return {
        "outcome": None if verdict.rules is None else verdict.outcome.value,
        "text": headline(verdict),
        "rules": verdict.rules,
        "is_example": verdict.is_example,
        "tester": {"calibrated": verdict.tester.is_calibrated, "problems": list(verdict.tester.problems)},
        "checks": [row_to_json(COLUMNS, one) for one in verdict.findings],
    }
