"""`charkha report`: a run, or a session of several jobs, as one HTML file."""

from __future__ import annotations

import argparse
from pathlib import Path

from emulator.cli.output import print_json
from emulator.cli.parser import Subparsers
from emulator.results.run_folder.places import HTML_MARK, check_file
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.session import is_session, load_session

_EPILOG = """example:
  charkha report runs/20261121-101500-transformer-8r

Writes report.html into the run folder: one file that opens offline, in light and dark mode, on a
phone and on paper. docs/report.md describes its sections. The report of a session shows how its
jobs affect each other (docs/interference.md); each job is a run with its own report.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `report` to the command line."""
    parser = subparsers.add_parser("report", description="Write a run as one self-contained HTML file.", epilog=_EPILOG)
    parser.add_argument("run", metavar="RUN", type=Path, help="run folder, or the folder of a session")
    parser.add_argument("--out", metavar="FILE", type=Path, help="the file (default: report.html in the run folder)")
    parser.add_argument("--json", action="store_true", help="print the facts of the report as JSON, write no file")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> None:
    if is_session(args.run):
        _report_session(args)
        return
    from emulator.views.html.facts import read_facts
    from emulator.views.html.run_page import facts_to_json
    from emulator.views.html.writing import REPORT, write_report

    found = read_run(args.run)
    if args.json:
        print_json(facts_to_json(read_facts(found)) | {"run_folder": str(found.folder)})
    else:
        check_file(args.out or args.run / REPORT, "--out", mark=HTML_MARK)
        print(write_report(found, args.out))


def _report_session(args: argparse.Namespace) -> None:
    from emulator.results.verdict.session import judge_session
    from emulator.views.as_json.interference import session_to_json
    from emulator.views.html.session_page import write_session_report
    from emulator.views.html.writing import REPORT

    session = load_session(args.run)
    if args.json:
        print_json(session_to_json(judge_session(session)))
    else:
        check_file(args.out or args.run / REPORT, "--out", mark=HTML_MARK)
        print(write_session_report(session, args.out))
