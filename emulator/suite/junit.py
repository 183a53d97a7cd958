"""The result of a suite as JUnit XML, for CI systems: one suite, a case per case."""

from __future__ import annotations

from junitparser import TestCase, TestSuite

from emulator.suite.record import CaseRecord, SuiteRecord
from emulator.views.junit.document import add_properties, result_of, to_text


def suite_to_xml(record: SuiteRecord) -> str:
    """The document: FAIL is a failure; TESTER-LIMITED and UNDECIDED are skipped cases with their reason."""
    suite = TestSuite(f"charkha suite {record.suite}")
    suite.timestamp = record.started
    suite.add_property("outcome", record.outcome.value)
    suite.add_property("not_played", str(record.left))
    for one in record.cases:
        suite.add_testcase(_case(one, record))
    return to_text("charkha suite", [suite])


def _case(one: CaseRecord, record: SuiteRecord) -> TestCase:
    case = TestCase(one.name, f"charkha.suite.{record.suite}")
    case.result = result_of(one.outcome, one.text)
    figures = {name: getattr(one, name) for name in ("clause", "metric", "value", "unit")}
    runs = " ".join(run.run_id for run in one.runs if run.run_id is not None)
    add_properties(case, {"outcome": one.outcome.value, **figures, "jobs": " ".join(one.jobs) or None, "run_ids": runs})
    return case
