"""`charkha trace diff`: how two trace sets differ."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from rich.console import Group, RenderableType

from emulator import exit_codes
from emulator.annexes.trace_kit.difference import Aspect, ComparedSet, Difference, TraceFinding, difference
from emulator.cli.output import print_json, print_tables
from emulator.cli.parser import Subparsers, argument, at_least
from emulator.cli.playing import status
from emulator.experiment.settle.workload import load_from_files
from emulator.experiment.spec.spec import Trace
from emulator.units import parse_fraction
from emulator.views.columns.columns import Column, Header, explain, paragraphs
from emulator.views.terminal.table import FittedTable
from emulator.visible import visible

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
    parser.add_explain("emulator.annexes.trace_kit.diff")
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


_MEANING = {
    Aspect.RANKS: "number of ranks",
    Aspect.GROUPS: "process groups that perform collectives, by their ranks; names are ignored",
    Aspect.OPERATIONS: "collectives by process group and number in it; messages by sender, receiver and number",
    Aspect.TYPES: "type of the k-th collective of a group",
    Aspect.SIZES: "size and splits of an operation at each of its ranks",
    Aspect.ROOTS: "root of a rooted collective",
    Aspect.DEPENDENCIES: "which communications each communication waits for, directly or through compute",
    Aspect.STORAGE: "reads and writes of files by each rank, in canonical order, and their sizes",
    Aspect.COMPUTE: "number of nodes on CPU and device of each rank",
    Aspect.NAMES: "name of a communication node at each rank",
    Aspect.DURATIONS: "compute time as it is played and recorded time of communication: by node, or the sums of a rank "
    "if its nodes are others",
}
_WORK = {Aspect.RANKS, Aspect.GROUPS, Aspect.OPERATIONS, Aspect.TYPES}
"""Sets that differ in one of them do not play variants of one job."""
_Row = tuple[Aspect, TraceFinding]
_COLUMNS: tuple[Column[_Row], ...] = (
    Column("aspect", "what was compared", cell=lambda row: row[0].value, is_number=False),
    Column("differ", "how many differ, or are in only one set", cell=lambda row: f"{row[1].differing:,}"),
    Column("of", "how many were compared", cell=lambda row: f"{row[1].compared:,}"),
    Column(
        "first", "the first of them", cell=lambda row: visible("; ".join(row[1].first[:1])), is_number=False, folds=40
    ),
)
EXPLAIN = paragraphs(
    explain(_COLUMNS, title="Differences:"),
    explain([Header(aspect.value, meaning) for aspect, meaning in _MEANING.items()], title="Aspects:"),
)


def sentence(found: Difference) -> str:
    """The answer in one line."""
    if found.is_same:
        return "the same"
    *others, last = [aspect.value for aspect in found.aspects]
    listed = f"{', '.join(others)} and {last}" if others else last
    return f"different work: {listed}" if _WORK.intersection(found.aspects) else f"the same but for {listed}"


def render(found: Difference) -> RenderableType:
    """The report of `charkha trace diff`."""
    parts: list[RenderableType] = [sentence(found)]
    rows = [(aspect, finding) for aspect, finding in found.findings.items() if finding.differing]
    if rows:
        parts += ["", FittedTable(_COLUMNS, rows)]
    if found.duration_ratio is not None and Aspect.DURATIONS in found.aspects:
        least, middle, most = found.duration_ratio
        ratios = f"{least:.3f} / {middle:.3f} / {most:.3f} (least, median, most)"
        parts += ["", f"Durations that are above 0 in both, second / first: {ratios}"]
    return Group(*parts)


def difference_to_json(found: Difference) -> dict[str, Any]:
    """Every aspect, whether it differs or not."""
    ratio = None
    if found.duration_ratio is not None:
        ratio = dict(zip(("least", "median", "most"), found.duration_ratio, strict=True))
    return {
        "same": found.is_same,
        "differ": [aspect.value for aspect in found.aspects],
        "aspects": {aspect.value: dataclasses.asdict(finding) for aspect, finding in found.findings.items()},
        "duration_ratio": ratio,
        "tolerance": found.tolerance,
    }
