"""`charkha launch slurm`: its options."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.cli.options.launch_here import (
    add_insecure,
    add_interfaces,
    agents_of,
    placement_of,
    print_or_play,
    refuse_own_control,
)

if TYPE_CHECKING:
    from emulator.cli.parser import Parser

EXAMPLE = """example, on a login node:
  charkha launch slurm --interface eth1 --sbatch partition=lab -- run my-job --topology rack.yaml

Submits a job with a node for each agent that the topology names, shows its output, and cancels it
on Ctrl-C. The present folder must be on a file system that all nodes share: docs/launch.md.
"""


def add_options(parser: Parser) -> None:
    """What the engine takes beside the command."""
    add_interfaces(parser)
    parser.add_argument(
        "--sbatch", metavar="OPTION", action="append", default=[], help="of sbatch, as partition=lab (repeatable)"
    )
    add_insecure(parser)
    parser.add_argument(
        "--in-job", advanced=True, action="store_true", help="play here, in a job that has begun: for batch scripts"
    )


def run(args: argparse.Namespace, command: Sequence[str]) -> int:
    """Submit the command as a job; inside of it, play it.

    Raises:
        EmulatorError: no Slurm, a job that is refused or ends, a topology without agents.
    """
    from emulator.launch.slurm import Batch, submitted
    from emulator.launch.slurm_step import SlurmStep

    refuse_own_control(command)
    placement = placement_of(args, agents_of(command))
    if args.in_job:
        return print_or_play(SlurmStep(placement, Path.cwd()), args, command)
    script = Batch(placement, args.sbatch).script(command)
    if args.print:
        print(script, end="")
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the job is cancelled either way
    return submitted(script, Path.cwd())
