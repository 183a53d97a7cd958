"""`charkha export`: a run in the form that another tool reads."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.errors import InputError
from emulator.export import otel
from emulator.export.formats import FORMATS, export
from emulator.run_folder.record import read_run
from emulator.visible import visible

if TYPE_CHECKING:
    from emulator.cli.options.arguments import Subparsers

_OTEL = "otel"
_EXAMPLE = """example:
  charkha export runs/20261121-101500-transformer-8r --to perfetto

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
    parser.add_argument(
        "--to",
        metavar="FORMAT",
        required=True,
        choices=(*FORMATS, _OTEL),
        help=f"{described}; {_OTEL}: metrics to an OpenTelemetry collector",
    )
    parser.add_argument("--out", metavar="PATH", type=Path, help="what to write (default: named after the run, here)")
    parser.add_argument("--endpoint", metavar="URL", help="of --to otel: the collector, as http://localhost:4318")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Export a run; prints the path of what was written.

    Raises:
        InputError: no run folder, the target exists, or an option that does not go with the format.
        HostError: it cannot be written, or a library is missing.
        RunError: a collector did not take it.
    """
    if args.to == _OTEL:
        return _send(args)
    if args.endpoint is not None:
        raise InputError(f"--endpoint goes with --to {_OTEL} only")
    written, notes = export(read_run(args.run), args.to, args.out)
    for note in notes:
        print(visible(note), file=sys.stderr)
    print(written)
    return 0


def _send(args: argparse.Namespace) -> int:
    if args.endpoint is None or not args.endpoint.startswith(("http://", "https://")):
        raise InputError(f"--to {_OTEL} needs the collector's URL: --endpoint http://HOST:4318")
    if args.out is not None:
        raise InputError(f"--to {_OTEL} writes no file; leave --out away")
    print(f"{otel.send(read_run(args.run), args.endpoint)} points sent to {args.endpoint}")
    return 0
