"""Writes the report of a run folder."""

from __future__ import annotations

from pathlib import Path

from emulator.host.files import write_text
from emulator.results.run_folder.reader import Run
from emulator.views.html.facts import PageFacts, read_facts
from emulator.views.html.page.document import render
from emulator.views.html.run_page import run_page

REPORT = "report.html"
"""File name of the report in a run folder."""


def write_report(run: Run, path: Path | None = None) -> Path:
    """Write the report of a run and return its path.

    Args:
        run: complete or aborted.
        path: of the file; None = report.html in the run folder. An existing file is replaced.

    Raises:
        ResultError: a table of the run is missing or damaged.
        HostError: the file cannot be written.
    """
    target = run.folder / REPORT if path is None else path
    write_text(target, report_html(read_facts(run)))
    return target


def report_html(facts: PageFacts) -> str:
    """The report as one self-contained HTML document."""
    return render(run_page(facts))
