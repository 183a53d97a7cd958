from __future__ import annotations

import json
from pathlib import Path

import pytest

from emulator.suite.document import find_suite, read_suite
from emulator.suite.reports import write_reports
from tests.unit.suite.test_table import RECORD


@pytest.mark.parametrize(("name", "has_clauses"), [("smoke", False), ("bmwg-training", True)])
def test_reports_are_written_next_to_the_runs_and_replaced(name: str, has_clauses: bool, tmp_path: Path) -> None:
    suite = read_suite(find_suite(name))
    for _ in range(2):
        write_reports(suite, RECORD, tmp_path)
    assert '<p class="answer bad"><strong>FAIL</strong>' in (tmp_path / "report.html").read_text()
    assert "<testsuite " in (tmp_path / "junit.xml").read_text()
    assert (tmp_path / "conformance.json").exists() is has_clauses
    if has_clauses:
        clauses = json.loads((tmp_path / "conformance.json").read_text())["clauses"]
        assert next(one for one in clauses if one["clause"] == "5.1")["why"] == "throughput was not played"
