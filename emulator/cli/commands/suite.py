"""`charkha suite`: play the cases of a suite, each judged by its rules."""

from __future__ import annotations

import argparse
from pathlib import Path

from emulator.cli.output import notify, print_json, print_tables
from emulator.cli.parser import Parser, Subparsers
from emulator.cli.player import CommandPlayer
from emulator.experiment.series.suite.document import find_suite, read_suite
from emulator.experiment.series.suite.listing import (
    history_to_json,
    list_to_json,
    read_history,
    render_history,
    render_list,
    render_suite,
)
from emulator.experiment.series.suite.reports import write_reports
from emulator.experiment.series.suite.runner import SUITES, latest_folder, play_suite
from emulator.experiment.series.suite.table import render_result
from emulator.experiment.series.turns import new_folder
from emulator.results.run_folder.places import check_folder

_EPILOG = """example:
  charkha suite run smoke

  charkha suite run sonic-ccl --topology leaf-spine.yaml --out suites/fw-2.1
  charkha suite resume sonic-ccl --topology leaf-spine.yaml --out suites/fw-2.1
  charkha suite history suites/*

Complete cases are never played twice. docs/suites.md describes the files.
exit codes: 0 all cases PASS; 5 FAIL; 6 TESTER-LIMITED; 7 UNDECIDED (the worst decides)
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `suite` and its actions to the command line."""
    parser = subparsers.add_parser(
        "suite", description="Play a test plan: a list of cases, each judged by its rules.", epilog=_EPILOG
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, (handler, summary, example) in _ACTIONS.items():
        epilog = f"example:\n  charkha suite {name} {example}\n"
        action: Parser = actions.add_parser(name, help=summary, description=f"{summary.capitalize()}.", epilog=epilog)
        action.set_defaults(handler=handler, is_resumed=name == "resume")
        if name == "history":
            action.add_argument("folders", metavar="DIR", nargs="+", type=Path, help="folders of suites")
        elif name != "list":
            action.add_argument("suite", metavar="NAME|FILE", help="a suite that Charkha ships, or a YAML file")
        if name in ("run", "resume"):
            action.add_argument("--topology", metavar="FILE", help="topology of all cases (default: that of each case)")
            action.add_argument("--out", metavar="DIR", type=Path, help="folder (default: suites/<time>-<name>)")
        if name != "show":
            action.add_argument("--json", action="store_true", help="print the same as JSON")


def _list(args: argparse.Namespace) -> None:
    print_json(list_to_json()) if args.json else print_tables(render_list())


def _show(args: argparse.Namespace) -> None:
    print_tables(*render_suite(read_suite(find_suite(args.suite))))


def _history(args: argparse.Namespace) -> None:
    records = read_history(args.folders)
    print_json(history_to_json(records)) if args.json else print_tables(render_history(records))


def _run(args: argparse.Namespace) -> int:
    over = {} if args.topology is None else {"network": {"topology": args.topology}}
    suite = read_suite(find_suite(args.suite), over=over)
    root = args.out or (latest_folder(suite.name) if args.is_resumed else new_folder(SUITES, suite.name))
    check_folder(root, "--out")

    def announce(number: int, folder: Path) -> None:
        notify(f"case {number} of {len(suite.cases)}: {suite.cases[number - 1].name}, into {folder}")

    record = None
    try:
        with CommandPlayer() as player:
            for so_far in play_suite(suite, root, player, resume=args.is_resumed, on_run=announce):
                record = so_far
    finally:
        if record is not None:
            write_reports(suite, record, root)
            print_json(record.to_plain()) if args.json else print_tables(*render_result(record, root))
    return so_far.outcome.exit_code


_ACTIONS = {
    "list": (_list, "list the suites that Charkha ships", "--json"),
    "show": (_show, "show the cases of a suite and their rules", "smoke"),
    "run": (_run, "play a suite into a new folder", "smoke --out suites/first"),
    "resume": (_run, "continue a suite that was interrupted", "smoke --out suites/first"),
    "history": (_history, "show the outcomes of suites over time", "suites/*"),
}
