"""`charkha bench pairs`: the bandwidth between every two ports, and which of them is slow."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from emulator.cli.options import add_options, build, changed, given, play_options
from emulator.cli.playing import add_output_options, play_and_show
from emulator.experiment.spec.parts import merge
from emulator.option import Level

if TYPE_CHECKING:
    from emulator.cli.parser import Parser, Subparsers

DEFAULT_RANKS = 4
"""Without a topology."""
OPTIONS = changed(
    play_options("job.pair_sweep"),
    "job.pair_sweep.ranks",
    is_required=False,
    unset=f"one per port of the topology, {DEFAULT_RANKS} without one",
)
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
    add_options(parser, OPTIONS, with_set=Level.FULL)
    add_output_options(parser)
    parser.add_explain("pair_table", advanced=True)
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Play the sweep; prints what is slow and the bandwidths, or JSON.

    Raises:
        EmulatorError: bad input, a failed run, a host that lacks something.
    """
    from emulator.experiment.settle.testbed import topology_without_host

    part = given(args, OPTIONS)
    if "ranks" not in part.get("job", {}).get("pair_sweep", {}):
        experiment = build(merge(part, _ranks(2)), OPTIONS, args)
        hosts = topology_without_host(experiment, ranks=0).hosts if experiment.network.topology else ()
        ports = sum(max(1, len(host.interfaces)) for host in hosts)
        part = merge(part, _ranks(ports or DEFAULT_RANKS))
    return play_and_show(build(part, OPTIONS, args), args)


def _ranks(count: int) -> dict[str, object]:
    return {"job": {"pair_sweep": {"ranks": count}}}
