from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from emulator.annexes.series.suite_document import ClauseSection, find_suite, read_suite
from emulator.annexes.series.suite_record import CaseRecord, Check, RunRecord
from emulator.annexes.series.suite_reports import (
    Conformance,
    conformance,
    conformance_to_json,
    suite_page,
    suite_to_xml,
    write_reports,
)
from emulator.cli.main import main
from emulator.errors import InputError
from emulator.results.run_folder.manifest import RunFigures
from emulator.results.verdict.judge import Outcome
from emulator.views.html.page.document import render
from tests.unit.annexes.series.test_suite_table import RECORD, case


@pytest.mark.parametrize(("name", "has_clauses"), [("smoke", False), ("bmwg-training", True)])
def test_reports_are_written_next_to_the_runs_and_replaced(
    name: str, has_clauses: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = replace(RECORD, clauses=read_suite(find_suite(name)).clauses)
    record.write(tmp_path)
    for _ in range(2):
        write_reports({"": record}, tmp_path)
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "again.html")]) == 0
    assert (tmp_path / "again.html").read_text() == (tmp_path / "report.html").read_text()
    capsys.readouterr()
    assert main(["report", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(record.to_plain()))
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


LOST = Check(
    outcome=Outcome.FAIL,
    text="frames_lost of sw0 is 15 (at most 0)",
    metric="frames_lost",
    about="sw0",
    unit="{count}",
    value=15,
    bound="at most 0",
)
RUN = RunRecord(
    folder="second",
    run_id="r1",
    outcome=Outcome.FAIL,
    firmware="2.1",
    topology="lab",
    figures=RunFigures(verdict="FAIL", jct_ns=5_000_000, lost=15),
    checks=(LOST,),
)
SUITE = replace(
    RECORD,
    planned=4,
    source="a plan",
    not_covered=("multicast", "storage"),
    clauses=read_suite(find_suite("bmwg-training")).clauses,
    cases=(
        replace(RECORD.cases[0], about="one run", clause="4.1"),
        replace(
            RECORD.cases[1],
            limit="at most 0",
            runs=(replace(RUN, job="a"), replace(RUN, job="b", checks=(LOST,) * 3)),
        ),
        CaseRecord(
            name="load",
            outcome=Outcome.FAIL,
            text="none",
            metric="highest_rate",
            unit="bit/s",
            runs=(
                replace(RUN, folder="load/2000000-1", load=2_000_000),
                RunRecord(
                    folder="load/1000000-1", run_id=None, outcome=Outcome.UNDECIDED, load=1_000_000, problem="lost"
                ),
            ),
        ),
    ),
)
"""A run, a session and a search; one case is left."""


def test_a_case_links_to_its_report() -> None:
    page = render(suite_page(SUITE, links={"second": "a%20case/report.html"}))
    assert '<a href="a%20case/report.html">second</a>' in page
    assert page.partition('id="results"')[2].partition("</table>")[0].count("<a href") == 1


def test_a_suite_that_is_over_has_no_warning() -> None:
    assert not suite_page(replace(SUITE, planned=3)).warnings


FOLLOWING = replace(
    RECORD,
    clauses=(
        ClauseSection(clause="1", title="passes", cases=("first",)),
        ClauseSection(clause="2", title="fails", cases=("first", "second", "third")),
        ClauseSection(clause="3", title="always", met="by design"),
        ClauseSection(clause="4", title="never", not_met="needs hardware"),
    ),
)


def test_a_clause_is_met_if_all_of_its_cases_pass() -> None:
    assert conformance(FOLLOWING) == [
        Conformance("1", "passes", "met", "1 case passed: first"),
        Conformance("2", "fails", "not met", "second is FAIL: frames_lost is 15; third was not played"),
        Conformance("3", "always", "met", "by design"),
        Conformance("4", "never", "not met", "needs hardware"),
    ]


def test_the_document_names_its_source_and_every_clause() -> None:
    document = conformance_to_json(replace(FOLLOWING, source="a draft"))
    assert (document["source"], document["suite"]) == ("a draft", "three")
    assert [(one["clause"], one["status"]) for one in document["clauses"]] == [
        ("1", "met"),
        ("2", "not met"),
        ("3", "met"),
        ("4", "not met"),
    ]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("{clause: a, title: b, cases: [smok]}", "there is no case 'smok'; there are one"),
        ("{clause: a, title: b}", "needs exactly one of cases, met and not_met"),
        ("{clause: a, title: b, met: x, not_met: y}", "needs exactly one of cases, met and not_met"),
    ],
)
def test_a_clause_names_cases_that_exist_or_a_reason(entry: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(
        "charkha_suite: 1\nname: x\nrules: [{metric: incomplete, at_most: 0}]\n"
        f"cases: [{{name: one, spec: {{job: {{sweep: {{collective: barrier, ranks: 2}}}}}}}}]\nclauses: [{entry}]\n"
    )
    with pytest.raises(InputError, match=problem):
        read_suite(path)


def test_every_case_of_the_shipped_bmwg_suite_carries_out_a_clause() -> None:
    suite = read_suite(find_suite("bmwg-training"))
    named = {name for clause in suite.clauses for name in clause.cases or ()}
    assert named == {case.name for case in suite.cases}
    assert all(case.clause for case in suite.cases)
