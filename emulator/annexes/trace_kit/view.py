"""`charkha trace view`: a trace as one HTML file, and as a time line for Perfetto."""

from __future__ import annotations

import argparse
from pathlib import Path

from emulator.cli.options import TRACE, add_options, build, given
from emulator.cli.output import print_json, print_line
from emulator.cli.parser import Subparsers, argument, at_least, whole
from emulator.cli.playing import status
from emulator.results.run_folder.places import HTML_MARK, check_file
from emulator.units import digits, parse_rate

_EPILOG = """example:
  charkha trace view lab/examples/transformer-8r --out transformer.html

Time line, bytes from rank to rank, sizes, critical path, overlap, and a part of the graph, in one
file that opens offline. Nothing is played: docs/view.md says where each time comes from.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `view` to the command line."""
    parser = subparsers.add_parser("view", description="Show a trace in one self-contained HTML file.", epilog=_EPILOG)
    add_options(parser, TRACE)
    parser.add_argument("--out", metavar="FILE", type=Path, help="the page (default: <name of the trace>.html)")
    parser.add_argument(
        "--rank", metavar="R", type=whole(0), help="show this rank alone; the others need not be recorded"
    )
    parser.add_argument("--perfetto", metavar="FILE", type=Path, help="also write the time line for ui.perfetto.dev")
    parser.add_argument(
        "--graph",
        metavar="RANK:NODE",
        type=argument(_node),
        help="node at the centre of the graph (default: the longest communication on the path)",
    )
    parser.add_argument(
        "--depth", metavar="N", type=at_least(1, most=20), default=3, help="levels of dependencies to draw (default: 3)"
    )
    parser.add_argument(
        "--rate",
        metavar="RATE",
        type=argument(parse_rate),
        default=None,
        help="rate of every rank, for communication without recorded times (default: 100Gbit)",
    )
    parser.add_argument("--json", action="store_true", help="print the facts of the page as JSON, write no page")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> None:
    from emulator.annexes.trace_kit.page import facts_to_json
    from emulator.annexes.trace_kit.viewing import DEFAULT_RATE_BPS, Look, view

    trace = build(given(args, TRACE), TRACE).job.trace
    assert trace is not None
    page = None if args.json else args.out or Path(f"{Path(trace.path).name or 'trace'}.html")
    if page is not None:
        check_file(page, "--out", mark=HTML_MARK)
    if args.perfetto is not None:
        check_file(args.perfetto, "--perfetto")
    look = Look(args.rate or DEFAULT_RATE_BPS, args.graph, args.depth, args.rank)
    with status() as on_step:
        facts = view(trace, look, page=page, perfetto=args.perfetto, on_step=on_step)
    if args.json:
        print_json(facts_to_json(facts))
    for path in (page, args.perfetto):
        if path is not None and not args.json:
            print_line(path)


def _node(text: str) -> tuple[int, int]:
    rank, node = map(digits, text.partition(":")[::2])
    if rank is None or node is None or node >= 1 << 64:
        raise ValueError(f"{text[:40]!r}: write RANK:NODE, as 0:57")
    return rank, node
