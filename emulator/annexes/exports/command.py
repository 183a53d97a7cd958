"""`charkha runs export`: a run in the format of another tool."""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from emulator.annexes.exports import otel
from emulator.annexes.exports.formats import Format, export, export_to_stream
from emulator.cli.output import notify, print_line
from emulator.cli.parser import Subparsers
from emulator.errors import InputError
from emulator.plugins import BUILT_IN, PluginKind, load
from emulator.results.run_folder.reader import read_run
from emulator.units import parse_duration

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
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `export` to the command line."""
    parser = subparsers.add_parser(
        "export",
        description="Write a run in the format of another tool (docs/export.md), and print the path of the result.",
        epilog=_EPILOG,
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="run folder")
    parser.add_argument("--to", metavar="FORMAT", required=True, help="one of the formats below, or an installed one")
    parser.add_argument(
        "--out", metavar="PATH", type=Path, help="target; - for stdout (default: here, named after the run)"
    )
    parser.add_argument("--endpoint", metavar="URL", help=f"collector for --to {_OTEL}, as http://localhost:4318")
    parser.add_argument(
        "--from", metavar="TIME", dest="begin", help="leave out what was before, for example 1.5s (for perfetto)"
    )
    parser.add_argument("--until", metavar="TIME", help="leave out what came later; both since the first payload")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> None:
    if args.to == _OTEL:
        _send(args)
        return
    if args.endpoint is not None:
        raise InputError(f"--endpoint is only for --to {_OTEL}")
    chosen = of_span(load(PluginKind.EXPORTS, args.to, Format), args.begin, args.until)
    chosen.require()
    run = read_run(args.run)
    if args.out == Path("-"):
        notes = export_to_stream(run, chosen, sys.stdout.buffer)
    else:
        written, notes = export(run, chosen, args.out)
        print_line(written)
    for note in notes:
        notify(note)


def of_span(chosen: Format, begin: str | None, until: str | None) -> Format:
    """The format for a part of a run, if one is asked for.

    Args:
        chosen: the whole format.
        begin, until: as on the command line, since the first payload.

    Raises:
        InputError: they are no times or no span, or the format has no part of a run.
    """
    if begin is None and until is None:
        return chosen
    if chosen.write_span is None:
        raise InputError(f"--from, --until: {chosen.name} has no part of a run; use --to perfetto")
    edges = [None if text is None else _ns(name, text) for name, text in (("--from", begin), ("--until", until))]
    span = (-math.inf if edges[0] is None else edges[0], math.inf if edges[1] is None else edges[1])
    if span[0] >= span[1]:
        raise InputError(f"--until {until}: is not after --from {begin}")
    return replace(chosen, write=partial(chosen.write_span, span=span))


def _ns(name: str, text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from error


def _send(args: argparse.Namespace) -> None:
    if args.endpoint is None or not args.endpoint.startswith(("http://", "https://")):
        raise InputError(f"--to {_OTEL} needs the URL of a collector: --endpoint http://HOST:4318")
    if args.out is not None:
        raise InputError(f"--to {_OTEL} writes no file: do not give --out")
    otel.require()
    print_line(f"{otel.send(read_run(args.run), args.endpoint)} points sent to {args.endpoint}")
