"""`charkha bench`: a sweep of one collective, as nccl-tests does."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from emulator.cli.options.run import SWEEP, play_groups
from emulator.cli.options.table import add_options, build, spec_part
from emulator.cli.playing import add_output_options, play_and_show

if TYPE_CHECKING:
    from emulator.cli.parser import Subparsers

GROUPS = [SWEEP, *play_groups(iterations=20, warmup=1)]
_EXAMPLE = """example:
  charkha bench all_reduce -n 8 -b 1K -e 64M

Sizes are counted as nccl-tests does: of all_gather, the whole gathered array.
The run folder holds every sample.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `bench` to the command line."""
    parser = subparsers.add_parser(
        "bench",
        description="Sweep one collective over sizes, as nccl-tests does, with the machinery of `charkha run`.",
        epilog=_EXAMPLE,
    )
    add_options(parser, GROUPS)
    add_output_options(parser)
    parser.add_explain("sweep", "campaign_table", advanced=True)
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Play the sweep; prints nccl-tests' table, or JSON.

    Raises:
        EmulatorError: bad input, a failed run, a host that lacks something.
    """
    return play_and_show(build(spec_part(args, GROUPS), GROUPS), args)
