"""`charkha runs judge`: judge a run by rules."""

from __future__ import annotations

import argparse
from pathlib import Path

from emulator import exit_codes
from emulator.cli.output import print_json, print_tables
from emulator.cli.parser import Subparsers
from emulator.errors import InputError
from emulator.results.run_folder.reader import read_run
from emulator.results.statistics.summary import summarise
from emulator.results.verdict.judge import judge
from emulator.results.verdict.rules import EXAMPLE, load_rules, rules_of
from emulator.views.as_json import verdict_to_json
from emulator.views.terminal.verdict_table import metrics_table, render

_EPILOG = """example:
  charkha runs judge runs/20261121-101500-transformer-8r rules.yaml

The first line is the verdict: PASS, FAIL, TESTER-LIMITED or UNDECIDED.
docs/expect.md describes rules and metrics.
exit codes: 0 PASS; 2 bad input; 5 FAIL; 6 TESTER-LIMITED; 7 UNDECIDED
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `judge` to the command line."""
    parser = subparsers.add_parser("judge", description="Judge a run by rules: bounds on its metrics.", epilog=_EPILOG)
    parser.add_argument("run", metavar="RUN", nargs="?", type=Path, help="run folder")
    parser.add_argument(
        "rules", metavar="RULES", nargs="?", help="rules file (default: those of the run, else the shipped `example`)"
    )
    parser.add_argument("--metrics", action="store_true", help="list all metrics and exit")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    parser.add_explain("verdict_table")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> int:
    if args.metrics:
        print(metrics_table())
        return exit_codes.DONE
    if args.run is None:
        raise InputError("give a run folder: charkha runs judge RUN [RULES]")
    run = read_run(args.run)
    rules = load_rules(args.rules) if args.rules is not None else rules_of(run) or load_rules(EXAMPLE)
    verdict = judge(summarise(run), rules)
    if args.json:
        print_json(verdict_to_json(verdict))
    else:
        print_tables(render(verdict))
    return verdict.exit_code
