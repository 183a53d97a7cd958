"""`charkha bench`: a sweep of one collective, as nccl-tests does."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.cli.options.arguments import add_play_options, argument, at_least
from emulator.cli.options.dut import add_profile_option
from emulator.cli.options.repeat import add_repeat_options, is_repeated
from emulator.cli.options.roce import add_roce_options
from emulator.cli.options.telemetry import add_telemetry_options
from emulator.errors import RunInterrupted
from emulator.trace.model import CommKind
from emulator.units import parse_size
from emulator.visible import visible

if TYPE_CHECKING:
    from emulator.cli.options.arguments import Subparsers
    from emulator.planner.workloads.sweep import Sweep
    from emulator.run_folder.record import Run

_COLLECTIVES = {kind.label: kind for kind in CommKind if kind.is_collective}
_EXAMPLE = """example:
  charkha bench all_reduce -n 8 -b 1K -e 64M

Sizes are those of nccl-tests: of all_gather, the whole gathered array. The run folder holds every sample.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `bench` to the command line."""
    parser = subparsers.add_parser(
        "bench",
        help="sweep one collective over sizes",
        description="Sweep one collective over sizes, as nccl-tests does, over the machinery of `charkha run`.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("collective", choices=sorted(_COLLECTIVES), metavar="COLLECTIVE", help=", ".join(_COLLECTIVES))
    parser.add_argument("-n", "--ranks", metavar="RANKS", type=at_least(1), required=True, help="size of the group")
    size = argument(parse_size)
    parser.add_argument("-b", "--min-bytes", metavar="MIN", type=size, default=1 << 10, help="default: 1K")
    parser.add_argument("-e", "--max-bytes", metavar="MAX", type=size, default=1 << 26, help="default: 64M")
    parser.add_argument("-f", "--factor", metavar="FACTOR", type=at_least(2), default=2, help="default: 2")
    add_play_options(parser, iterations=20, warmup=1)
    add_repeat_options(parser)
    add_roce_options(parser)
    add_profile_option(parser)
    add_telemetry_options(parser)
    parser.set_defaults(handler=run, is_by_hand=False, compute=1.0, scale_bytes=Fraction(1), element_bytes=None)


def run(args: argparse.Namespace) -> int:
    """Play the sweep; prints nccl-tests' table, or JSON.

    Raises:
        EmulatorError: bad input, a failed run, a host that lacks something.
    """
    # What playing needs takes most of a second to load: the help does without.
    from emulator.experiment.playing import run_folder, show_interrupted
    from emulator.experiment.repeating import repeat
    from emulator.planner.workloads.sweep import Sweep, sweep_sizes

    kind = _COLLECTIVES[args.collective]
    sizes = sweep_sizes(kind, ranks=args.ranks, least=args.min_bytes, most=args.max_bytes, factor=args.factor)
    sweep = Sweep(kind, args.ranks, sizes)
    folder = run_folder(args, name=f"bench-{kind.label}-{args.ranks}r")
    if is_repeated(args):
        return repeat(args, lambda own, at: _play(own, sweep, at), root=folder, classes=len(sizes) + 1)
    try:
        _show(_play(args, sweep, folder), sweep, args)
    except RunInterrupted:
        show_interrupted(folder, lambda stopped: _show(stopped, sweep, args))
        raise
    return 0


def _play(args: argparse.Namespace, sweep: Sweep, folder: Path) -> Run:
    from emulator.controller.scratch import scratch_folder
    from emulator.experiment.playing import play
    from emulator.planner.workloads.sweep import sweep_workload
    from emulator.trace.workload import build_workload
    from emulator.wire.trace.generated import write_workload
    from emulator.wire.trace.load import load_trace

    with scratch_folder() as traces:
        write_workload(sweep_workload(sweep), traces / "trace")
        loaded = load_trace(traces / "trace", ranks=args.ranks)
        named = replace(loaded, path=Path(f"bench {sweep.kind.label}"))
        return play(args, named, build_workload(loaded.traces), folder=folder)


def _show(run: Run, sweep: Sweep, args: argparse.Namespace) -> None:
    from emulator.statistics.sweep import sweep_table, sweep_to_json
    from emulator.views.terminal.sweep import render_sweep

    table = sweep_table(run, kind=sweep.kind, ranks=sweep.ranks, sizes=sweep.sizes)
    if args.json:
        print(json.dumps(sweep_to_json(table) | {"run_folder": str(run.folder)}, indent=2))
    else:
        print(render_sweep(table))
        print(f"# Run folder: {visible(str(run.folder))}")
