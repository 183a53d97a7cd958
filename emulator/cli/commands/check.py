"""`charkha check`: what is in a trace, and the proof that playing it ends. No traffic."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from emulator.cli.options.arguments import add_trace_options
from emulator.experiment.reading import read_workload
from emulator.trace.summary import summarise
from emulator.views.terminal.console import console
from emulator.views.terminal.trace_summary import render, to_json

if TYPE_CHECKING:
    from emulator.cli.options.arguments import Subparsers

_EXAMPLE = """example:
  charkha check lab/examples/transformer-8r

Exit code 0: the trace can be played, and playing it ends. Exit code 2: it cannot; one line says which file, node or
ranks are in the way. docs/traces.md explains every warning and error.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `check` to the command line."""
    parser = subparsers.add_parser(
        "check",
        help="validate and summarise a trace",
        description="Read a trace, prove that playing it ends, and say what is in it. No traffic.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_trace_options(parser)
    parser.add_argument("--json", action="store_true", help="the same facts as JSON on stdout")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Check a trace; prints the summary, or JSON.

    Raises:
        TraceError: it cannot be read or played.
        InputError: the group file cannot be read.
    """
    loaded, workload = read_workload(args)
    summary = summarise(workload, loaded.traces, groups=loaded.groups)
    if args.json:
        print(json.dumps(to_json(summary), indent=2))
    else:
        console().print(render(summary))
    return 0
