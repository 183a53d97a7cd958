"""`charkha compare`: runs, or groups of runs, of versions of a device."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.cli.options.arguments import LARGEST_SEED, argument, at_least
from emulator.comparison.comparability import Comparability, check_comparability
from emulator.comparison.groups import RunGroup, read_groups, split_by_firmware
from emulator.comparison.machine import to_json
from emulator.comparison.verdicts import MEDIAN, TAIL, Comparison, Rules, compare, gate
from emulator.errors import InputError
from emulator.run_folder.places import HTML_MARK, JUNIT_MARK, check_file
from emulator.run_folder.stream import write_text
from emulator.views.terminal.comparison_table import render
from emulator.views.terminal.console import console
from emulator.views.terminal.trend_table import render_trend

if TYPE_CHECKING:
    from emulator.cli.options.arguments import Subparsers

REGRESSION = 4
"""Exit code where the gate found something slower."""

_STATISTICS = {"p50": MEDIAN, "p90": 0.9, "p95": 0.95, "p99": TAIL}
_EXAMPLE = """example:
  charkha run lab/examples/transformer-8r --repeat 6 --out runs/fw-a      now install the other firmware
  charkha run lab/examples/transformer-8r --repeat 6 --out runs/fw-b
  charkha compare runs/fw-a runs/fw-b --gate --junit compare.xml

Each argument is a group: a run folder, a folder of run folders, or a quoted pattern. The first is the baseline.
Runs are the unit: 4 a side can decide one class, 6 up to 23. docs/compare.md explains every column and verdict.

exit codes: 0 done, or the gate lets it pass, 2 bad input or not comparable, 4 the gate found something slower
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `compare` to the command line."""
    parser = subparsers.add_parser(
        "compare",
        help="compare groups of runs, as of two firmware versions",
        description="Compare groups of runs class by class: ratio of times with its interval, a rank test, a verdict.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("groups", metavar="GROUP", nargs="+", help="runs of one version; the first is the baseline")
    rules = parser.add_argument_group("verdicts")
    rules.add_argument(
        "--margin", metavar="M", type=argument(_margin), default=0.03, help="what does not matter (default: 3%%)"
    )
    rules.add_argument(
        "--on", choices=_STATISTICS, default="p50", help="what stands for a run in its classes (default: p50)"
    )
    rules.add_argument("--force", action="store_true", help="compare what is not comparable, and say so")
    rules.add_argument(
        "--seed", metavar="N", type=at_least(0, most=LARGEST_SEED), default=0, help="of the bootstrap (default: 0)"
    )
    rules.add_argument(
        "--gate",
        nargs="?",
        const="slower",
        choices=("slower", "strict"),
        help="exit with 4 where a class is slower; with --gate=strict also where one is inconclusive",
    )
    rules.add_argument(
        "--trend", action="store_true", help="a table over all versions; one GROUP is split by its runs' firmware"
    )
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="everything as JSON on stdout")
    output.add_argument("--html", metavar="FILE", type=Path, help="write a page with pictures, in one file")
    output.add_argument("--junit", metavar="FILE", type=Path, help="write JUnit XML: a case per class")
    parser.set_defaults(handler=run)


def _margin(text: str) -> float:
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError as error:
        raise ValueError(f"{text!r}: a margin is needed, as 3% or 0.03") from error
    if not 0 < value < 1:
        raise ValueError(f"{text!r}: a margin between 0% and 100% is needed, as 3% or 0.03")
    return value


def run(args: argparse.Namespace) -> int:
    """Compare; prints tables, or JSON.

    Raises:
        InputError: runs that cannot be read or, without --force, not be compared; no place for a file.
        HostError: a file cannot be written.
    """
    _check_places(args)
    groups = _groups(args)
    comparability = check_comparability(groups)
    if comparability.refused and not args.force:
        raise InputError(_refusal(comparability))
    rules = Rules(margin=args.margin, quantile=_STATISTICS[args.on], seed=args.seed)
    comparison = compare(groups, comparability, rules)
    _write_files(comparison, args)
    _show(comparison, args)
    is_passed = args.gate is None or gate(comparison, is_strict=args.gate == "strict")
    return 0 if is_passed else REGRESSION


def _check_places(args: argparse.Namespace) -> None:
    for path, option, mark in ((args.html, "--html", HTML_MARK), (args.junit, "--junit", JUNIT_MARK)):
        if path is not None:
            check_file(path, option, mark=mark)


def _groups(args: argparse.Namespace) -> list[RunGroup]:
    groups = read_groups(args.groups)
    if args.trend and len(groups) == 1:
        groups = split_by_firmware(groups[0])
    if len(groups) < 2:
        more = "its runs are all of one firmware" if args.trend else "or with --trend one that has several firmwares"
        raise InputError(f"{args.groups[0]}: one group is nothing to compare; name another, {more}")
    return groups


def _refusal(comparability: Comparability) -> str:
    differences = " | ".join(str(one) for one in comparability.refused)
    return f"the runs are not comparable (--force compares them all the same, and says so): {differences}"


def _show(comparison: Comparison, args: argparse.Namespace) -> None:
    if args.json:
        print(json.dumps(to_json(comparison), indent=2))
        return
    console().print(render_trend(comparison) if args.trend else render(comparison))


def _write_files(comparison: Comparison, args: argparse.Namespace) -> None:
    if args.html is not None:
        from emulator.views.html.comparison_page import comparison_page
        from emulator.views.html.page.document import render as render_page

        write_text(args.html, render_page(comparison_page(comparison)))
    if args.junit is not None:
        from emulator.views.comparison_junit import to_xml

        write_text(args.junit, to_xml(comparison, is_strict=args.gate == "strict"))
