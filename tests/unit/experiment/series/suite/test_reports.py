from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from emulator.experiment.series.suite.document import find_suite, read_suite
from emulator.experiment.series.suite.record import RunRecord
from emulator.experiment.series.suite.reports import suite_to_xml, write_reports
from emulator.results.verdict.judge import Outcome
from tests.unit.experiment.series.suite.test_table import RECORD, case


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


def test_fail_is_a_failure_and_what_was_not_decided_is_skipped() -> None:
    limited = case("third", Outcome.TESTER_LIMITED, "busbw", 1e9, "By/s")
    (suite,) = ElementTree.fromstring(suite_to_xml(RECORD.with_case(limited))).iter("testsuite")
    cases = {one.get("name"): one for one in suite.iter("testcase")}
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    assert suite.get("timestamp") == RECORD.started
    assert cases["first"].find("failure") is None
    assert cases["second"].find("failure").get("message") == "frames_lost is 15"
    assert cases["third"].find("skipped").get("message") == "busbw is 1000000000.0"


def test_a_case_has_its_figure_and_its_clause_as_properties() -> None:
    record = replace(RECORD, cases=(replace(RECORD.cases[0], clause="4.1"),))
    (one,) = ElementTree.fromstring(suite_to_xml(record)).iter("testcase")
    found = {item.get("name"): item.get("value") for item in one.iter("property")}
    assert (found["metric"], found["value"], found["clause"], found["outcome"]) == (
        "busbw_to_ideal",
        "97.3",
        "4.1",
        "PASS",
    )


def test_a_session_names_its_jobs() -> None:
    runs = tuple(RunRecord(folder=job, run_id=f"r-{job}", outcome=Outcome.PASS, job=job) for job in "ab")
    record = replace(RECORD, cases=(replace(RECORD.cases[0], runs=runs),))
    (one,) = ElementTree.fromstring(suite_to_xml(record)).iter("testcase")
    found = {item.get("name"): item.get("value") for item in one.iter("property")}
    assert (found["jobs"], found["run_ids"]) == ("a b", "r-a r-b")


def test_the_number_of_cases_that_were_not_played_is_a_property() -> None:
    (suite,) = ElementTree.fromstring(suite_to_xml(RECORD)).iter("testsuite")
    found = {item.get("name"): item.get("value") for item in suite.find("properties")}
    assert found == {"outcome": "FAIL", "not_played": "1"}
