"""`charkha convert`: rewrite a trace as plain Chakra ET, one protobuf file per rank."""

from __future__ import annotations

import argparse
from pathlib import Path

from emulator.cli.options.converters import at_least
from emulator.cli.output import print_json, print_tables
from emulator.cli.parser import Subparsers
from emulator.run_folder.places import check_folder

_EPILOG = """example:
  charkha convert traces/resnet-json traces/resnet

Reads protobuf JSON (from chakra_jsonizer), workload_graph JSON, and .et compressed with gzip or
zstandard. Writes plain .et, which every Chakra reader accepts, and the group file.
PyTorch host traces need Chakra's own converter. docs/traces.md lists the formats.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `convert` to the command line."""
    parser = subparsers.add_parser(
        "convert",
        description="Rewrite a trace of any format that Charkha reads as plain Chakra ET: <prefix>.<rank>.et.",
        epilog=_EPILOG,
    )
    parser.add_argument("source", metavar="SRC", type=Path, help="a folder, a prefix of <prefix>.<rank>.*, or one file")
    parser.add_argument("target", metavar="DST", type=Path, help="folder for the files, new or empty")
    parser.add_argument("--groups", metavar="FILE", type=Path, help="process groups (default: the file next to SRC)")
    parser.add_argument("--ranks", metavar="N", type=at_least(1), help="number of ranks the trace must have")
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> None:
    from emulator.views.terminal.written_trace import files_line
    from emulator.wire.trace.convert import convert_trace
    from emulator.wire.trace.load import load_trace

    check_folder(args.target, "DST")
    loaded = load_trace(args.source, ranks=args.ranks, groups=args.groups)
    paths, ranks = convert_trace(loaded, args.target), len(loaded.files)
    if args.json:
        print_json({"ranks": ranks, "nodes": loaded.nodes, "files": [str(path) for path in paths]})
    else:
        print_tables(f"{loaded.nodes:,} nodes of {ranks:,} rank{'s' * (ranks != 1)}", files_line(paths))
