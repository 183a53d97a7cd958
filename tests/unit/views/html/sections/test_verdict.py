"""The verdict in the report: an answer in its tone, and a section with every check."""

from __future__ import annotations

from pathlib import Path

from emulator.views.html.sections.verdict import answer, checks
from tests.unit.views.terminal.test_verdict_table import rule, verdict


def test_the_report_shows_the_answer_in_the_tone_of_the_outcome(tmp_path: Path) -> None:
    found = answer(verdict(tmp_path, rule("jct", 10)))
    assert (found.word, found.tone) == ("FAIL", "bad")
    assert found.text.startswith("jct is 500 ns (at most 10)")
    assert answer(verdict(tmp_path / "good", rule("jct", 900))).tone == "good"
    assert answer(verdict(tmp_path / "open")).tone == "open"


def test_the_report_has_a_section_only_if_there_were_rules(tmp_path: Path) -> None:
    (section,) = checks(verdict(tmp_path, rule("jct", 10)))
    assert section.title == "Verdict"
    assert list(checks(verdict(tmp_path / "none"))) == []
