"""`charkha report`: a run as one HTML file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.run_folder.places import HTML_MARK, check_file
from emulator.run_folder.record import read_run

if TYPE_CHECKING:
    from emulator.cli.options.arguments import Subparsers

_EXAMPLE = """example:
  charkha report runs/20261121-101500-transformer-8r

Writes report.html into the run folder: one file that opens offline, in light and dark, on a phone and on paper.
docs/report.md says what is in it.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `report` to the command line."""
    parser = subparsers.add_parser(
        "report",
        help="look at a run: one HTML file",
        description="Write the report of a run: one HTML file that needs nothing else.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="run folder")
    parser.add_argument("--out", metavar="FILE", type=Path, help="the file (default: report.html in the run folder)")
    parser.add_argument("--json", action="store_true", help="the facts of the report as JSON on stdout, and no file")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Write the report; prints its path, or the JSON.

    Raises:
        InputError: no run folder, or a damaged one; no place for a file, or one that Charkha did not write.
        HostError: the file cannot be written.
    """
    from emulator.views.html.facts import read_facts
    from emulator.views.html.run_page import facts_to_json
    from emulator.views.html.writing import REPORT, write_report

    found = read_run(args.run)
    if args.json:
        print(json.dumps(facts_to_json(read_facts(found)) | {"run_folder": str(found.folder)}, indent=2))
    else:
        check_file(args.out or args.run / REPORT, "--out", mark=HTML_MARK)
        print(write_report(found, args.out))
    return 0
