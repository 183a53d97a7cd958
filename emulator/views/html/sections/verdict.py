"""The verdict in the report of a run: the answer at the top, and a section with every check."""

from __future__ import annotations

from collections.abc import Iterator

from emulator.results.verdict.judge import Outcome, Verdict
from emulator.views.columns.verdict_columns import COLUMNS
from emulator.views.html.page.document import Answer, PageSection, table_of
from emulator.views.text.verdict_text import words

TONES = {Outcome.PASS: "good", Outcome.FAIL: "bad"}


def answer(verdict: Verdict) -> Answer:
    """The first line of the page."""
    return Answer(*words(verdict), TONES.get(verdict.outcome, "open"))


def checks(verdict: Verdict) -> Iterator[PageSection]:
    """A table of every check; nothing without rules."""
    if verdict.findings:
        about = "TESTER-LIMITED: the tester determined the value, not the device. UNDECIDED: it was not measured."
        yield PageSection(
            "verdict", "Verdict", [table_of("checks", f"Checks: {verdict.rules}", COLUMNS, verdict.findings, about)]
        )
