"""`charkha export`: a run in the form that another tool reads."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.export.formats import FORMATS, export
from emulator.results.record import read_run

if TYPE_CHECKING:
    from emulator.cli.arguments import Subparsers

_EXAMPLE = """example:
  charkha export runs/20261121T101500-transformer-8r --to perfetto

The path of what was written goes to stdout. docs/export.md says what is in each format.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `export` to the command line."""
    parser = subparsers.add_parser(
        "export",
        help="hand a run on to another tool",
        description="Write a run in the form that another tool reads. The run folder stays as it is.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="run folder")
    described = "; ".join(f"{one.name}: {one.summary}" for one in FORMATS.values())
    parser.add_argument("--to", metavar="FORMAT", required=True, choices=tuple(FORMATS), help=described)
    parser.add_argument("--out", metavar="PATH", type=Path, help="what to write (default: named after the run, here)")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Export a run; prints the path of what was written.

    Raises:
        InputError: no run folder, or the target exists.
        HostError: it cannot be written, or a library is missing.
    """
    print(export(read_run(args.run), args.to, args.out))
    return 0
