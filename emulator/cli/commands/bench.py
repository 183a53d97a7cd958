"""`charkha bench`: a sweep of one collective, as nccl-tests does, or of the bandwidth between every two ports."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from emulator.cli.options import add_options, build, changed, given, play_options
from emulator.cli.playing import add_output_options, play_and_show
from emulator.experiment.spec.parts import merge
from emulator.experiment.spec.settings import ALGORITHMS, parse_setting
from emulator.option import Level
from emulator.trace.meaning.names import COLLECTIVES, SEND_RECV
from emulator.units import parse_size

if TYPE_CHECKING:
    from emulator.cli.parser import Parser, Subparsers

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


DEFAULT_RANKS = 4
"""Without a topology."""
PAIR_OPTIONS = changed(
    play_options("job.pair_sweep"),
    "job.pair_sweep.ranks",
    is_required=False,
    unset=f"one per port of the topology, {DEFAULT_RANKS} without one",
)
_PAIRS_EPILOG = """example:
  charkha bench pairs --topology topologies/eight-hosts-switch.yaml

Every port sends to every other one, one at a time, all at once. Ports and pairs far below the
others are named. docs/pairs.md has more.
"""


def add_pairs(subparsers: Subparsers) -> None:
    """Add `pairs` to the command line."""
    parser: Parser = subparsers.add_parser(
        "pairs",
        description="Measure the bandwidth between every two ports and name the slow ones.",
        epilog=_PAIRS_EPILOG,
    )
    add_options(parser, PAIR_OPTIONS, with_set=Level.FULL)
    add_output_options(parser)
    parser.add_explain("pair_table", advanced=True)
    parser.set_defaults(handler=_play_pairs)


def _play_pairs(args: argparse.Namespace) -> int:
    """Play the sweep; prints what is slow and the bandwidths, or JSON.

    Raises:
        EmulatorError: bad input, a failed run, a host that lacks something.
    """
    from emulator.experiment.settle.testbed import topology_without_host

    part = given(args, PAIR_OPTIONS)
    if "ranks" not in part.get("job", {}).get("pair_sweep", {}):
        experiment = build(merge(part, _ranks(2)), PAIR_OPTIONS, args)
        hosts = topology_without_host(experiment, ranks=0).hosts if experiment.network.topology else ()
        ports = sum(max(1, len(host.interfaces)) for host in hosts)
        part = merge(part, _ranks(ports or DEFAULT_RANKS))
    return play_and_show(build(part, PAIR_OPTIONS, args), args)


def _ranks(count: int) -> dict[str, object]:
    return {"job": {"pair_sweep": {"ranks": count}}}
