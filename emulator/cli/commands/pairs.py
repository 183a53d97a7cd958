"""`charkha bench pairs`: the bandwidth between every two ports, and which of them is slow."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from emulator.cli.options.converters import whole
from emulator.cli.options.run import play_groups
from emulator.cli.options.table import Option, OptionGroup, add_options, build, spec_part
from emulator.cli.playing import add_output_options, play_and_show
from emulator.experiment.spec.parts import merge
from emulator.units import parse_size

if TYPE_CHECKING:
    from emulator.cli.parser import Parser, Subparsers

DEFAULT_RANKS = 4
"""Without a topology."""
_PAIRS = OptionGroup(
    "",
    (
        Option(
            "-n --ranks",
            "job.pair_sweep.ranks",
            f"number of ranks (default: one per port of the topology, {DEFAULT_RANKS} without one)",
            metavar="RANKS",
            read=whole(2),
            is_common=True,
        ),
        Option(
            "-b --size",
            "job.pair_sweep.size_bytes",
            "bytes per transfer (default: 8M)",
            metavar="SIZE",
            read=parse_size,
            is_common=True,
        ),
        Option(
            "--rounds",
            "job.pair_sweep.rounds",
            "each port sends to N others, spread evenly (default: all)",
            metavar="N",
            read=whole(1),
            is_common=True,
        ),
    ),
)
GROUPS = [_PAIRS, *play_groups(iterations=5, warmup=1)]
_EXAMPLE = """example:
  charkha bench pairs --topology topologies/eight-hosts-switch.yaml

Every port sends to every other one, one at a time, all at once. Ports and pairs far below the
others are named. docs/pairs.md has more.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `pairs` to the command line."""
    parser: Parser = subparsers.add_parser(
        "pairs", description="Measure the bandwidth between every two ports and name the slow ones.", epilog=_EXAMPLE
    )
    add_options(parser, GROUPS)
    add_output_options(parser)
    parser.add_explain("pair_table", advanced=True)
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Play the sweep; prints what is slow and the bandwidths, or JSON.

    Raises:
        EmulatorError: bad input, a failed run, a host that lacks something.
    """
    from emulator.experiment.settle.testbed import topology_without_host

    part = spec_part(args, GROUPS)
    if "ranks" not in part.get("job", {}).get("pair_sweep", {}):
        experiment = build(merge(part, _ranks(2)), GROUPS)
        hosts = topology_without_host(experiment, ranks=0).hosts if experiment.network.topology else ()
        ports = sum(max(1, len(host.interfaces)) for host in hosts)
        part = merge(part, _ranks(ports or DEFAULT_RANKS))
    return play_and_show(build(part, GROUPS), args)


def _ranks(count: int) -> dict[str, object]:
    return {"job": {"pair_sweep": {"ranks": count}}}
