"""`charkha trace diff`: how two trace sets differ."""

from __future__ import annotations

import argparse

from emulator import exit_codes
from emulator.cli.options.converters import argument, at_least
from emulator.cli.output import print_json, print_tables
from emulator.cli.parser import Subparsers
from emulator.cli.playing import status
from emulator.experiment.settle.workload import load_from_files
from emulator.experiment.spec.spec import Trace
from emulator.trace.analysis.compare import ComparedSet, difference
from emulator.units import parse_fraction
from emulator.views.as_json.trace import difference_to_json
from emulator.views.terminal.trace_difference import render

_EPILOG = """example:
  charkha trace diff traces/monday traces/tuesday --tolerance 5%

Compares ranks, process groups, collectives by group and number, messages, sizes, types, roots,
dependencies, reads and writes of files, names and durations. The exit code is 0 even if the sets
differ; with --gate it is then 1.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `diff` to the command line."""
    parser = subparsers.add_parser(
        "diff", description="Compare two trace sets and list the differences.", epilog=_EPILOG
    )
    parser.add_argument("first", metavar="A", help="a trace set")
    parser.add_argument("second", metavar="B", help="another")
    parser.add_argument(
        "--tolerance",
        metavar="P",
        type=argument(parse_fraction),
        default=0.0,
        help="treat durations as equal if they differ by at most this (default: 0)",
    )
    parser.add_argument("--gate", action="store_true", help="exit code 1 if the sets differ")
    parser.add_argument("--ranks", metavar="N", type=at_least(1), help="number of ranks that both sets must have")
    parser.add_argument("--lenient", action="store_true", help="drop dependencies on missing nodes, in both sets")
    parser.add_argument("--json", action="store_true", help="print the same facts as JSON")
    parser.add_explain("trace_difference")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> int:
    with status() as on_step:
        sets = []
        for path in (args.first, args.second):
            job = load_from_files(Trace(path=path, ranks=args.ranks, lenient=args.lenient), on_step=on_step)
            sets.append(ComparedSet(job.loaded.traces, job.workload))
        on_step("comparing")
        found = difference(*sets, tolerance=args.tolerance)
    if args.json:
        print_json(difference_to_json(found))
    else:
        print_tables(render(found))
    return exit_codes.FAILED if args.gate and not found.is_same else exit_codes.DONE
