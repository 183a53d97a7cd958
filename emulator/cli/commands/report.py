"""`charkha report`: a run, a session of several jobs, a suite or a sweep as one HTML file."""

from __future__ import annotations

import argparse
from pathlib import Path

from emulator.cli.output import print_json, print_line
from emulator.cli.parser import Subparsers
from emulator.results.run_folder.manifest import REPORT
from emulator.results.run_folder.places import HTML_MARK, check_file

_EPILOG = """example:
  charkha report runs/20261121-101500-transformer-8r

Writes report.html into the run folder: one file that opens offline, in light and dark mode, on a
phone and on paper. docs/report.md describes its sections. The report of a session shows how its
jobs affect each other (docs/interference.md); each job is a run with its own report. The report of
a suite or a sweep is written anew from its result.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `report` to the command line."""
    parser = subparsers.add_parser("report", description="Write a run as one self-contained HTML file.", epilog=_EPILOG)
    parser.add_argument(
        "run", metavar="RUN", type=Path, help="folder of a run, a session, runs of one job, a suite or a sweep"
    )
    parser.add_argument("--out", metavar="FILE", type=Path, help="the file (default: report.html in the run folder)")
    parser.add_argument("--json", action="store_true", help="print the facts of the report as JSON, write no file")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> None:
    from emulator.experiment.play.outcome import stored_result
    from emulator.host.files import write_text
    from emulator.views.html.page.document import render

    result = stored_result(args.run)
    if args.json:
        print_json(result.to_json())
        return
    target = args.out or args.run / REPORT
    check_file(target, "--out", mark=HTML_MARK)
    write_text(target, render(result.page(target.parent)))
    print_line(target)
