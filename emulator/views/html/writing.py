"""From a run folder to a report file."""

from __future__ import annotations

from pathlib import Path

from emulator.run_folder.record import Run
from emulator.run_folder.stream import write_text
from emulator.views.html.facts import RunFacts, read_facts
from emulator.views.html.page.document import render
from emulator.views.html.run_page import run_page

REPORT = "report.html"
"""Its name in a run folder."""


def write_report(run: Run, path: Path | None = None) -> Path:
    """Write the report of a run; returns where it is.

    Args:
        run: closed, or left by a crash.
        path: of the file; None = report.html in the run folder. A file that is there is replaced.

    Raises:
        ResultError: a table of the run is missing or damaged.
        HostError: the file cannot be written.
    """
    target = run.folder / REPORT if path is None else path
    write_text(target, report_html(read_facts(run)))
    return target


def report_html(facts: RunFacts) -> str:
    """The whole report, with everything it needs."""
    return render(run_page(facts))
