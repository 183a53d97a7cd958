"""Writes what a suite leaves besides its runs: report.html and junit.xml."""

from __future__ import annotations

from pathlib import Path

from emulator.run_folder.stream import write_text
from emulator.suite.junit import suite_to_xml
from emulator.suite.page import suite_page
from emulator.suite.record import SuiteRecord
from emulator.views.html.page.document import render

REPORT, JUNIT = "report.html", "junit.xml"


def write_reports(record: SuiteRecord, folder: Path) -> None:
    """Write them into the folder of the suite; those of an earlier part of the same suite are replaced.

    Raises:
        HostError: a file cannot be written.
    """
    write_text(folder / REPORT, render(suite_page(record)))
    write_text(folder / JUNIT, suite_to_xml(record))
