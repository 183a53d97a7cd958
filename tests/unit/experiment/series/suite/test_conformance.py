from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from emulator.errors import InputError
from emulator.experiment.series.suite.conformance import Conformance, conformance, conformance_to_json
from emulator.experiment.series.suite.document import ClauseSection, find_suite, read_suite
from emulator.experiment.series.suite.page import suite_page
from tests.unit.experiment.series.suite.test_page import tables
from tests.unit.experiment.series.suite.test_table import RECORD

CLAUSES = (
    ClauseSection(clause="1", title="passes", cases=("first",)),
    ClauseSection(clause="2", title="fails", cases=("first", "second", "third")),
    ClauseSection(clause="3", title="always", met="by design"),
    ClauseSection(clause="4", title="never", not_met="needs hardware"),
)


def test_a_clause_is_met_if_all_of_its_cases_pass() -> None:
    assert conformance(CLAUSES, RECORD) == [
        Conformance("1", "passes", "met", "1 case passed: first"),
        Conformance("2", "fails", "not met", "second is FAIL: frames_lost is 15; third was not played"),
        Conformance("3", "always", "met", "by design"),
        Conformance("4", "never", "not met", "needs hardware"),
    ]


def test_the_document_names_its_source_and_every_clause() -> None:
    document = conformance_to_json(CLAUSES, replace(RECORD, source="a draft"))
    assert (document["source"], document["suite"]) == ("a draft", "three")
    assert [(one["clause"], one["status"]) for one in document["clauses"]] == [
        ("1", "met"),
        ("2", "not met"),
        ("3", "met"),
        ("4", "not met"),
    ]


def test_the_report_has_a_row_per_clause() -> None:
    assert [row[2] for row in tables(suite_page(RECORD, CLAUSES))["clauses"].rows] == [
        "met",
        "not met",
        "met",
        "not met",
    ]
    assert "clauses" not in tables(suite_page(RECORD))


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
