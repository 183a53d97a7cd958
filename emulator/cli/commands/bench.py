"""`charkha bench`: a sweep of one collective, as nccl-tests does."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from emulator.cli.options import add_options, build, changed, given, play_options
from emulator.cli.playing import add_output_options, play_and_show
from emulator.experiment.spec.settings import ALGORITHMS, parse_setting
from emulator.option import Level
from emulator.trace.meaning.names import COLLECTIVES, SEND_RECV
from emulator.units import parse_size

LAYOUTS = ("nccl-tests", "charkha")
ONLY = ""
"""Name of the only collective."""

if TYPE_CHECKING:
    from emulator.cli.parser import Subparsers


def _algorithm(text: str) -> tuple[str, str]:
    return parse_setting(text) if "=" in text or not text else (ONLY, text)


def _sizes(text: str) -> int | list[int]:
    return [parse_size(one) for one in text.split(",")] if "," in text else parse_size(text)


OPTIONS = changed(
    changed(play_options("job.sweep"), "job.sweep.min_bytes", read=_sizes),
    ALGORITHMS,
    summary="algorithm of the collective: ring, or FILE.xml",
    metavar="NAME",
    read=_algorithm,
)
_LISTED = "\n  ".join((*COLLECTIVES, SEND_RECV))
_EXAMPLE = f"""example:
  charkha bench all_reduce -n 8 -b 1K -e 64M

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
        description="Measure one collective over a range of sizes, as nccl-tests does. See also `charkha bench pairs`.",
        epilog=_EXAMPLE,
    )
    add_options(parser, OPTIONS, with_set=Level.FULL)
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
    part = given(args, OPTIONS)
    job, sweep = part["job"], part["job"]["sweep"]
    if (alone := job.get("algorithms", {}).pop(ONLY, None)) is not None:
        job["algorithms"][sweep["collective"]] = alone
    if isinstance(sweep.get("min_bytes"), list):
        sweep["sizes"] = sweep.pop("min_bytes")
    return play_and_show(build(part, OPTIONS, args), args)
