"""`charkha run`: the main job."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.cli.options.arguments import add_compute_option, add_play_options, add_trace_options
from emulator.cli.options.dut import add_profile_option
from emulator.cli.options.repeat import add_repeat_options, is_repeated
from emulator.cli.options.roce import add_roce_options
from emulator.cli.options.telemetry import add_telemetry_options
from emulator.errors import RunInterrupted
from emulator.visible import visible

if TYPE_CHECKING:
    from emulator.cli.options.arguments import Subparsers
    from emulator.run_folder.record import Run

_EXAMPLE = """example:
  charkha run lab/examples/transformer-8r --iterations 10 --algorithm all_reduce=ring

Checks the trace, starts agents on this host, plays it over loopback, and writes a run folder with all samples and the
measured trace. docs/results.md says what every number means.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `run` to the command line."""
    parser = subparsers.add_parser(
        "run",
        help="play a trace and measure every collective",
        description="Play a trace as network traffic and measure when every collective completed.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run_options(parser, is_by_hand=False)


def add_run_options(parser: argparse.ArgumentParser, *, is_by_hand: bool) -> None:
    """All that `run` takes; `is_by_hand` where it starts no agents."""
    add_trace_options(parser)
    add_play_options(parser, iterations=5, warmup=1)
    add_repeat_options(parser)
    add_roce_options(parser)
    add_telemetry_options(parser)
    add_compute_option(parser)
    add_profile_option(parser)
    parser.set_defaults(handler=run, is_by_hand=is_by_hand)


def run(args: argparse.Namespace) -> int:
    """Play a trace; prints the table, or the JSON.

    Raises:
        EmulatorError: bad input, a failed run, a host that lacks something.
    """
    # What playing needs takes most of a second to load: the help does without.
    from emulator.experiment.playing import play, run_folder, show_interrupted
    from emulator.experiment.reading import read_workload
    from emulator.experiment.repeating import repeat
    from emulator.statistics.classes import count_classes

    loaded, workload = read_workload(args)
    folder = run_folder(args, name=Path(args.trace).name)
    if is_repeated(args):

        def play_one(own: argparse.Namespace, at: Path) -> Run:
            return play(own, loaded, workload, folder=at)

        return repeat(args, play_one, root=folder, classes=count_classes(workload))
    try:
        finished = play(args, loaded, workload, folder=folder)
    except RunInterrupted:
        show_interrupted(folder, lambda stopped: _show(stopped, args))
        raise
    _show(finished, args)
    return 0


def _show(run: Run, args: argparse.Namespace) -> None:
    from emulator.statistics.summary import summarise
    from emulator.views.as_json.summary import summary_to_json
    from emulator.views.terminal.console import console
    from emulator.views.terminal.summary_table import render

    summary = summarise(run)
    if args.json:
        print(json.dumps(summary_to_json(summary) | {"run_folder": str(run.folder)}, indent=2))
        return
    out = console()
    out.print(render(summary))
    out.print(f"Run folder: {visible(str(run.folder))}", soft_wrap=True, highlight=False)
