"""`charkha check`: what is in a trace, and the proof that playing it ends."""

from __future__ import annotations

import argparse

from emulator.cli.options.run import TRACE, trace_argument
from emulator.cli.options.table import OptionGroup, add_options, build, spec_part
from emulator.cli.output import print_json, print_tables
from emulator.cli.parser import Subparsers
from emulator.cli.playing import status
from emulator.experiment.workload import load_from_files
from emulator.trace.summary import summarise
from emulator.views.as_json.trace import trace_to_json
from emulator.views.terminal.trace_summary import render

GROUPS = [OptionGroup("", (trace_argument(),)), TRACE]
_EPILOG = """example:
  charkha check lab/examples/transformer-8r

Exit code 0: the trace can be played, and playing it ends. Exit code 2: it cannot be played; one
line names the file, node or ranks. docs/traces.md explains every warning and error.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `check` to the command line."""
    parser = subparsers.add_parser(
        "check",
        description="Read a trace, prove that playing it ends, and summarise it. Sends no traffic.",
        epilog=_EPILOG,
    )
    add_options(parser, GROUPS)
    parser.add_argument("--json", action="store_true", help="print the same facts as JSON")
    parser.add_explain("trace_summary")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> None:
    trace = build(spec_part(args, GROUPS), GROUPS).job.trace
    assert trace is not None
    with status() as on_step:
        job = load_from_files(trace, on_step=on_step)
    summary = summarise(job.workload, job.loaded.traces, groups=job.loaded.groups)
    if args.json:
        print_json(trace_to_json(summary))
    else:
        print_tables(render(summary))
