"""`charkha runs export`: a run in the format of another tool."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from emulator.annexes.exports import otel
from emulator.annexes.exports.formats import Format, export, export_to_stream
from emulator.cli.output import notify, print_line
from emulator.cli.parser import Subparsers
from emulator.errors import InputError
from emulator.plugins import BUILT_IN, PluginKind, load
from emulator.results.run_folder.reader import read_run

_OTEL = "otel"
_FORMATS = {name: load(PluginKind.EXPORTS, name).summary for name in BUILT_IN[PluginKind.EXPORTS]}
_FORMATS[_OTEL] = "metrics to an OpenTelemetry collector"
_JSON = "-json"
_LISTED = "\n".join(
    f"  {name + (f'[{_JSON}]' if name + _JSON in _FORMATS else ''):<19}{summary}"
    for name, summary in _FORMATS.items()
    if not name.endswith(_JSON)
)
_EPILOG = f"""example:
  charkha runs export runs/20261121-101500-transformer-8r --to perfetto
formats:
{_LISTED}

stdout shows the path of the result. docs/export.md describes every format.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `export` to the command line."""
    parser = subparsers.add_parser(
        "export",
        description="Write a run in the format of another tool. The run folder does not change.",
        epilog=_EPILOG,
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="run folder")
    parser.add_argument("--to", metavar="FORMAT", required=True, help="one of the formats below, or an installed one")
    parser.add_argument(
        "--out", metavar="PATH", type=Path, help="target; - for stdout (default: here, named after the run)"
    )
    parser.add_argument("--endpoint", metavar="URL", help=f"collector for --to {_OTEL}, as http://localhost:4318")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> None:
    if args.to == _OTEL:
        _send(args)
        return
    if args.endpoint is not None:
        raise InputError(f"--endpoint is only for --to {_OTEL}")
    chosen = load(PluginKind.EXPORTS, args.to, Format)
    chosen.require()
    run = read_run(args.run)
    if args.out == Path("-"):
        notes = export_to_stream(run, chosen, sys.stdout.buffer)
    else:
        written, notes = export(run, chosen, args.out)
        print_line(written)
    for note in notes:
        notify(note)


def _send(args: argparse.Namespace) -> None:
    if args.endpoint is None or not args.endpoint.startswith(("http://", "https://")):
        raise InputError(f"--to {_OTEL} needs the URL of a collector: --endpoint http://HOST:4318")
    if args.out is not None:
        raise InputError(f"--to {_OTEL} writes no file: do not give --out")
    otel.require()
    print_line(f"{otel.send(read_run(args.run), args.endpoint)} points sent to {args.endpoint}")
