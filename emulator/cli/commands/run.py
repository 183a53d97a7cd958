"""`charkha run`: the main job."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator.cli.options import add_options, build, changed, given, naming_events, play_options
from emulator.cli.playing import add_output_options, play_and_show
from emulator.errors import InputError
from emulator.experiment.spec.parts import merge, part_of
from emulator.experiment.spec.spec import Experiment
from emulator.option import Level

if TYPE_CHECKING:
    from emulator.cli.parser import Subparsers

OPTIONS = changed(play_options("job.trace"), "job.trace.path", is_required=False)
_EXAMPLE = """example:
  charkha run lab/examples/transformer-8r --iterations 10 --algorithm all_reduce=ring

Checks the trace, starts agents on this host, plays it over loopback, and writes a run folder with
all samples and the measured trace. docs/results.md explains every number. A run spec (-f) has the
same settings as the options; options override it: docs/experiment.md. With --by-hand no agent is
started here: start one on every host with `charkha agent start`. An agent has the name that the
topology's `agents` gives it, else its host's name: docs/physical.md walks through it.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `run` to the command line."""
    parser = subparsers.add_parser(
        "run",
        description="Play a trace as network traffic and measure when every collective completed.",
        epilog=_EXAMPLE,
    )
    add_options(parser, OPTIONS, with_set=Level.FULL)
    source = parser.add_argument_group("run spec")
    source.add_argument("-f", "--file", metavar="FILE", type=Path, help="play the run spec in a YAML file")
    source.add_argument("--again", metavar="RUN", type=Path, help="repeat the run of a run folder")
    add_output_options(parser)
    parser.add_argument(
        "--solo",
        action="store_true",
        advanced=True,
        help="with several jobs: first play each alone, on the same hosts",
    )
    parser.add_argument(
        "--allow-commands",
        action="store_true",
        advanced=True,
        help="run the commands of events (do) on this host: read the run spec first",
    )
    parser.add_explain("summary_table", "campaign_table", "interference_table", advanced=True)
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Play a trace, a run spec or a stored run again; prints the table, or JSON.

    Raises:
        EmulatorError: bad input, a failed run, a host that lacks something.
    """
    with naming_events(args.file):
        return play_and_show(experiment_of(args), args)


def experiment_of(args: argparse.Namespace) -> Experiment:
    """The run spec that the arguments give.

    Raises:
        InputError: not exactly one of TRACE, -f and --again was given, or a value does not fit.
    """
    part = given(args, OPTIONS)
    trace, jobs = part.get("job", {}).get("trace", {}).get("path"), part.get("jobs")
    if sum(one is not None for one in (trace, jobs, args.file, args.again)) != 1:
        raise InputError("give one of TRACE, --job, -f FILE and --again RUN (see `charkha run --help`)")
    return build(merge(_base(args), part), OPTIONS, args)


def _base(args: argparse.Namespace) -> dict[str, Any]:
    """The run spec that the options override."""
    from emulator.experiment.spec.document import experiment_of_run, read_experiment
    from emulator.results.run_folder.reader import read_run

    if args.file is not None:
        found = read_experiment(args.file)
    elif args.again is not None:
        found = experiment_of_run(read_run(args.again))
    else:
        return {}
    return part_of(found)
