"""`charkha launch ray`: its options."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

from emulator.cli.options.converters import at_least
from emulator.errors import InputError

if TYPE_CHECKING:
    from emulator.cli.parser import Parser

EXAMPLE = """example, on a node of the cluster:
  charkha launch ray -n 4 --interface eth1 -- run traces/my-job --topology rack.yaml

An actor on each of 4 nodes runs an agent; the controller runs here. All of it ends with this
command. docs/launch.md explains it.
"""


def add_options(parser: Parser) -> None:
    """What the engine takes beside the command."""
    parser.add_argument("-n", "--nodes", metavar="N", type=at_least(1), required=True, help="agents, one per node")
    parser.add_argument(
        "--interface", metavar="NAME", action="append", default=[], help="port under test of each node (repeatable)"
    )
    parser.add_argument("--address", default="auto", help="of the cluster (default: the one that this node is in)")
    parser.add_argument("--cores", metavar="N", type=at_least(0), default=1, help="that Ray keeps for an agent (1)")
    parser.add_argument("--join-timeout", metavar="S", type=at_least(1), default=60, help="wait for nodes (60 s)")
    parser.add_argument("--insecure", action="store_true", help="control without certificates, with a token")


def run(args: argparse.Namespace, command: Sequence[str]) -> int:
    """Play the command with agents on the nodes of the cluster.

    Raises:
        EmulatorError: no ray, no cluster, too few nodes, an agent that ends.
    """
    from emulator.cli.output import notify
    from emulator.launch.ray_nodes import RayNodes, play

    if args.print:
        raise InputError("--print: Ray has no job file; the actors are started by this command itself")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return play(
        RayNodes(args.address, cores=args.cores),
        command,
        count=args.nodes,
        interfaces=args.interface,
        is_insecure=args.insecure,
        timeout_s=args.join_timeout,
        report=notify,
    )
