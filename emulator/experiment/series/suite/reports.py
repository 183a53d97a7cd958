"""Writes what a suite leaves next to its runs: report.html, junit.xml, and conformance.json if it has clauses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from junitparser import TestCase, TestSuite

from emulator.experiment.series.suite.conformance import conformance_to_json
from emulator.experiment.series.suite.document import Suite
from emulator.experiment.series.suite.page import suite_page
from emulator.experiment.series.suite.record import CaseRecord, SuiteRecord
from emulator.host.files import write_text
from emulator.views.html.page.document import render
from emulator.views.junit.document import add_properties, result_of, to_text

REPORT, JUNIT, CONFORMANCE = "report.html", "junit.xml", "conformance.json"


def write_reports(suite: Suite, record: SuiteRecord, folder: Path) -> None:
    """Write them into the folder of the suite; those of an earlier part of the same suite are replaced.

    Raises:
        HostError: a file cannot be written.
    """
    reports = dict(_reports(record, folder))
    write_text(folder / REPORT, render(suite_page(record, suite.clauses, reports=reports)))
    write_text(folder / JUNIT, suite_to_xml(record))
    if suite.clauses:
        document = conformance_to_json(suite.clauses, record)
        write_text(folder / CONFORMANCE, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def _reports(record: SuiteRecord, folder: Path) -> Iterator[tuple[str, str]]:
    """(case, path of its report below the folder): of the session, or of the run that decides."""
    for one in record.cases:
        places = [one.name, *(run.folder for run in (one.decisive,) if run is not None)]
        found = [place for place in places if (folder / place / REPORT).is_file()]
        if found:
            yield one.name, f"{found[0]}/{REPORT}"


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
