"""`charkha compare`: groups of runs, for example of two firmware versions."""

from __future__ import annotations

import argparse
from pathlib import Path

from emulator import exit_codes
from emulator.cli.output import notify, print_json, print_tables
from emulator.cli.parser import Subparsers, argument, at_least
from emulator.errors import InputError
from emulator.results.comparison.comparability import check_comparability
from emulator.results.comparison.groups import groups_to_compare
from emulator.results.comparison.verdicts import MEDIAN, TAIL, ComparisonRules, GroupComparison, compare
from emulator.results.run_folder.places import HTML_MARK, JUNIT_MARK, check_file
from emulator.units import LARGEST_SEED, parse_fraction
from emulator.views.as_json import comparison_to_json
from emulator.views.columns.uncertainty_columns import compared_figures
from emulator.views.comparison_text import comparison_to_markdown, undecided_text, write_comparison
from emulator.views.terminal.comparison_table import render, render_trend
from emulator.views.terminal.store_table import render_uncertainty
from emulator.visible import visible_lines

_STATISTICS = {"p25": 0.25, "p50": MEDIAN, "p90": 0.9, "p95": 0.95, "p99": TAIL}
_SLOWER, _STRICT, _LENIENT = _GATES = ("slower", "strict", "lenient")
_EPILOG = """example:
  charkha compare runs/fw-a runs/fw-b --gate --junit compare.xml

How to make the runs:
  charkha run TRACE --topology LAB.yaml --profiles fw-a,fw-b --repeat 6 --out runs/ab
plays both in turns, so that a drift of the machine affects both. On a device of your own, install
one version, then the other, more than once if that is quick, and play a part of the runs each time.

Runs are the unit of the statistics: 4 per group can decide one class, 6 up to 23 classes.
docs/compare.md explains every column and verdict.

exit codes: 0 done, or the gate passed; 2 bad input or not comparable; 4 the gate found a
regression; 7 the gate decided nothing (strict: left a class undecided)
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `compare` to the command line."""
    parser = subparsers.add_parser(
        "compare",
        description="Compare groups of runs class by class: ratio of times with its interval, rank test, verdict.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "groups",
        metavar="GROUP",
        nargs="+",
        help="a run folder, a folder of run folders, or a quoted pattern; the first is the baseline",
    )
    rules = parser.add_argument_group("verdicts")
    rules.add_argument(
        "--gate",
        nargs="?",
        const=_SLOWER,
        choices=_GATES,
        help="exit with 4 if a class is slower, 7 if none is decided",
    )
    rules.add_argument(
        "--margin",
        metavar="M",
        type=argument(parse_fraction),
        default=0.03,
        help="differences to ignore (default: 3%%)",
    )
    rules.add_argument("--on", choices=_STATISTICS, default="p50", help="statistic of a run to compare (default: p50)")
    rules.add_argument(
        "--find",
        metavar="F",
        advanced=True,
        type=argument(parse_fraction),
        help="show how many runs find a difference of F, for example 5%%",
    )
    rules.add_argument("--force", action="store_true", help="compare runs that are not comparable")
    rules.add_argument("--trend", action="store_true", help="one table over all versions; splits a GROUP by firmware")
    rules.add_argument(
        "--seed",
        metavar="N",
        advanced=True,
        type=at_least(0, most=LARGEST_SEED),
        default=0,
        help="random seed of the bootstrap (default: 0)",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--html", metavar="FILE", type=Path, help="write a page with charts, in one file")
    output.add_argument("--junit", metavar="FILE", type=Path, help="write JUnit XML: one case per class")
    output.add_argument("--markdown", action="store_true", advanced=True, help="print it as Markdown, for a CI job")
    output.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_explain("comparison_table", "store_table", after="groups")
    parser.set_defaults(handler=_run, explain=False)


def _run(args: argparse.Namespace) -> int:
    for path, option, mark in ((args.html, "--html", HTML_MARK), (args.junit, "--junit", JUNIT_MARK)):
        if path is not None:
            check_file(path, option, mark=mark)
    if args.find is not None and args.find <= args.margin:
        raise InputError(
            f"--find: differences up to --margin {100 * args.margin:g}% are ignored: name a smaller margin"
        )
    groups = groups_to_compare(args.groups, by_firmware=args.trend)
    comparability = check_comparability(groups)
    if comparability.refused and not args.force:
        raise InputError(comparability.refusal)
    rules = ComparisonRules(margin=args.margin, quantile=_STATISTICS[args.on], seed=args.seed, find=args.find)
    comparison = compare(groups, comparability, rules)
    write_comparison(comparison, html=args.html, junit=args.junit, is_strict=args.gate == _STRICT, is_trend=args.trend)
    if args.explain:
        print_tables(render_uncertainty([one for pair in comparison.pairs for one in compared_figures(pair)]))
    elif args.json:
        print_json(comparison_to_json(comparison))
    elif args.markdown:
        print(visible_lines(comparison_to_markdown(comparison)), end="")
    else:
        print_tables(render_trend(comparison) if args.trend else render(comparison))
    if args.gate is not None and comparison.is_undecided:
        notify(undecided_text(comparison))
    return exit_codes.DONE if args.gate is None else _gate_code(comparison, args.gate)


def _gate_code(comparison: GroupComparison, gate: str) -> int:
    if not comparison.passes_gate(is_strict=False):
        return exit_codes.REGRESSION
    is_open = comparison.is_undecided or (gate == _STRICT and not comparison.passes_gate(is_strict=True))
    return exit_codes.UNDECIDED if is_open and gate != _LENIENT else exit_codes.DONE
