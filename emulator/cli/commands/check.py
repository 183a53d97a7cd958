"""`charkha trace check`: what is in a trace or a run spec, and the proof that playing it ends."""

from __future__ import annotations

import argparse

from rich.console import Group

from emulator.cli.options import OPTIONAL_TRACE, add_options, add_spec_file, build, experiment_of_file, given
from emulator.cli.output import print_json, print_tables
from emulator.cli.parser import Subparsers
from emulator.cli.playing import notify_of_import, status
from emulator.errors import InputError
from emulator.experiment.settle.workload import Alone, load_job
from emulator.experiment.spec.spec import Experiment
from emulator.trace.analysis.summary import Summary, summarise
from emulator.views.terminal.trace_summary import render

_EPILOG = """example:
  charkha trace check lab/examples/transformer-8r

Exit code 0: the trace can be played, and playing it ends; or it is of one rank of many, which can
only be looked at. Exit code 2: it cannot be played; one line names the file, node or ranks.
docs/traces.md explains every warning and error.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `check` to the command line."""
    parser = subparsers.add_parser(
        "check",
        description="Read a trace, prove that a run of it finishes, and summarise it; with -f, also check the\n"
        "flows of a run spec as well. Sends no traffic.",
        epilog=_EPILOG,
    )
    add_options(parser, OPTIONAL_TRACE)
    add_spec_file(parser)
    parser.add_argument("--json", action="store_true", help="print the same facts as JSON")
    parser.add_explain("trace_summary", "flow_load_table")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> None:
    part = given(args, OPTIONAL_TRACE)
    if (args.file is None) is (part.get("job", {}).get("trace", {}).get("path") is None):
        raise InputError("give one of TRACE and -f FILE")
    experiment = build(part, OPTIONAL_TRACE) if args.file is None else experiment_of_file(args, part, OPTIONAL_TRACE)
    with status() as on_step, load_job(experiment.job, on_step=on_step, alone=Alone()) as job:
        summary = summarise(job.workload, job.loaded.traces, groups=job.loaded.groups)
    notify_of_import(job)
    if args.file is not None:
        _print_with_flows(summary, experiment, job.ranks, is_json=args.json)
    elif args.json:
        from emulator.views.as_json import trace_to_json  # with the results of runs, which a table does not need

        print_json(trace_to_json(summary))
    else:
        print_tables(render(summary))


def _print_with_flows(summary: Summary, experiment: Experiment, ranks: int, *, is_json: bool) -> None:
    # Imported here: a trace alone is checked without the rooms that settle a run.
    from emulator.experiment.settle.plan import check_flows
    from emulator.views.as_json import flows_to_json, trace_to_json
    from emulator.views.terminal.flow_load_table import flow_table

    flows = check_flows(experiment, ranks=ranks)
    if is_json:
        print_json(trace_to_json(summary) | {"flows_beside": flows_to_json(flows)})
    else:
        print_tables(Group(render(summary), *flow_table(flows)))
