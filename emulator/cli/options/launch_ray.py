"""`charkha launch ray`: its options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from emulator.cli.options.converters import at_least
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

EXAMPLE = """example, on a node of the cluster:
  charkha launch ray --interface eth1 -- run traces/my-job --topology rack.yaml

An actor on a node each runs an agent that the topology names; the controller runs here. All of it
ends with this command. docs/launch.md explains it.
"""


def add_options(parser: Parser) -> None:
    """What the engine takes beside the command."""
    add_interfaces(parser)
    parser.add_argument("--address", default="auto", help="of the cluster (default: the one that this node is in)")
    parser.add_argument("--cores", metavar="N", type=at_least(0), default=1, help="that Ray keeps for an agent (1)")
    parser.add_argument("--join-timeout", metavar="S", type=at_least(1), default=60, help="wait for nodes (60 s)")
    add_insecure(parser)


def run(args: argparse.Namespace, command: Sequence[str]) -> int:
    """Play the command with agents on the nodes of the cluster.

    Raises:
        EmulatorError: no ray, no cluster, too few nodes, an agent that ends.
    """
    from emulator.launch.ray_engine import RayEngine

    refuse_own_control(command)
    placement = placement_of(args, agents_of(command))
    engine = RayEngine(placement, args.address, cores=args.cores, join_timeout_s=args.join_timeout)
    return print_or_play(engine, args, command)
