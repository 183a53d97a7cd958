"""`charkha convert`: a trace in another form into plain Chakra ET, one protobuf file per rank."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.cli.options.arguments import at_least
from emulator.run_folder.places import check_folder

if TYPE_CHECKING:
    from emulator.cli.options.arguments import Subparsers

_EXAMPLE = """example:
  charkha convert traces/resnet-json traces/resnet

Reads protobuf JSON (chakra_jsonizer's), workload_graph JSON, and .et with gzip or zstandard; writes plain .et, which
every reader of Chakra takes, and the group file beside it. PyTorch's host traces need Chakra's own converter.
docs/traces.md says which forms are read.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `convert` to the command line."""
    parser = subparsers.add_parser(
        "convert",
        help="other forms of a trace into plain Chakra ET",
        description="Write a trace of any form that Charkha reads as plain Chakra ET: <prefix>.<rank>.et.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="SRC", type=Path, help="a folder, a prefix of <prefix>.<rank>.*, or one file")
    parser.add_argument("target", metavar="DST", type=Path, help="folder for the files; made, or empty")
    parser.add_argument("--groups", metavar="FILE", type=Path, help="process groups (default: the file beside SRC)")
    parser.add_argument("--ranks", metavar="N", type=at_least(1), help="how many ranks the trace must have")
    parser.add_argument("--json", action="store_true", help="what was written as JSON on stdout")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Convert a trace; prints what was written, or JSON.

    Raises:
        TraceError: it cannot be read, or is in a form that is not read.
        InputError: the folder is not empty, or cannot be made; a group file that cannot be read.
        HostError: something cannot be written.
    """
    from emulator.views.terminal.console import console
    from emulator.visible import visible
    from emulator.wire.trace.convert import convert_trace
    from emulator.wire.trace.load import load_trace

    check_folder(args.target, "DST")
    loaded = load_trace(args.source, ranks=args.ranks, groups=args.groups)
    paths = convert_trace(loaded, args.target)
    ranks = len(loaded.files)
    if args.json:
        print(json.dumps({"ranks": ranks, "nodes": loaded.nodes, "files": [str(path) for path in paths]}, indent=2))
        return 0
    names = [paths[0].name] if ranks == 1 else [f"{paths[0].name} to {paths[ranks - 1].name}"]
    names += [path.name for path in paths[ranks:]]
    out = console()
    out.print(f"{loaded.nodes:,} nodes of {ranks:,} rank{'s' * (ranks != 1)}", highlight=False)
    out.print(visible(f"{args.target}: {', '.join(names)}"), soft_wrap=True, highlight=False)
    return 0
