"""Writes what a suite leaves next to its runs: report.html, junit.xml, and conformance.json if it has clauses."""

from __future__ import annotations

import json
from pathlib import Path

from emulator.run_folder.stream import write_text
from emulator.suite.conformance import conformance_to_json
from emulator.suite.document import Suite
from emulator.suite.junit import suite_to_xml
from emulator.suite.page import suite_page
from emulator.suite.record import SuiteRecord
from emulator.views.html.page.document import render

REPORT, JUNIT, CONFORMANCE = "report.html", "junit.xml", "conformance.json"


def write_reports(suite: Suite, record: SuiteRecord, folder: Path) -> None:
    """Write them into the folder of the suite; those of an earlier part of the same suite are replaced.

    Raises:
        HostError: a file cannot be written.
    """
    write_text(folder / REPORT, render(suite_page(record, suite.clauses)))
    write_text(folder / JUNIT, suite_to_xml(record))
    if suite.clauses:
        document = conformance_to_json(suite.clauses, record)
        write_text(folder / CONFORMANCE, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
