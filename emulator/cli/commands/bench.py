"""`charkha bench`: a sweep of one collective, as nccl-tests does."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from emulator.cli.options.run import ALGORITHM_OF_ONE, ONLY, SWEEP, play_groups
from emulator.cli.options.table import add_options, build, spec_part
from emulator.cli.playing import add_output_options, play_and_show
from emulator.trace.meaning.collective_names import COLLECTIVES, SEND_RECV

LAYOUTS = ("nccl-tests", "charkha")

if TYPE_CHECKING:
    from emulator.cli.parser import Subparsers

GROUPS = [SWEEP, *play_groups(iterations=20, warmup=1, algorithm=ALGORITHM_OF_ONE)]
_LISTED = "\n  ".join((*COLLECTIVES, SEND_RECV))
_EXAMPLE = f"""example:
  charkha bench all_reduce -n 8 -b 1K -e 64M
  charkha bench pairs --topology topologies/eight-hosts-switch.yaml     every two ports

  charkha bench alltoall -n 4 -b 1K,64K,1M -w 5
  charkha bench all_gather -n 8 -b 1M -e 16M -i 1M

Sizes are counted as nccl-tests does: of all_gather, the whole gathered array. K, M and G are powers
of 1,024, KB, MB and GB of 1,000. nccl-tests' -n is --iterations here; -n is the number of ranks.
The run folder holds every sample. Collectives:
  {_LISTED}
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `bench` to the command line."""
    parser = subparsers.add_parser(
        "bench",
        description="Measure one collective over a range of sizes, as nccl-tests does.",
        epilog=_EXAMPLE,
    )
    add_options(parser, GROUPS)
    add_output_options(parser)
    parser.add_argument("--columns", choices=LAYOUTS, default=LAYOUTS[0], advanced=True, help="layout of the table")
    parser.add_explain("sweep", "campaign_table", advanced=True)
    parser.hints = {"-g": ": a rank stands for a GPU, so give their number with -n"}
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Play the sweep; prints nccl-tests' table, or JSON.

    Raises:
        EmulatorError: bad input, a failed run, a host that lacks something.
    """
    part = spec_part(args, GROUPS)
    job, sweep = part["job"], part["job"]["sweep"]
    if (alone := job.get("algorithms", {}).pop(ONLY, None)) is not None:
        job["algorithms"][sweep["collective"]] = alone
    if isinstance(sweep.get("min_bytes"), list):
        sweep["sizes"] = sweep.pop("min_bytes")
    return play_and_show(build(part, GROUPS), args)
