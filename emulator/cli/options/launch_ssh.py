"""`charkha launch ssh`: its options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.cli.options.converters import argument
from emulator.cli.options.launch_here import (
    add_insecure,
    add_interfaces,
    agents_of,
    placement_of,
    print_or_play,
    refuse_own_control,
)
from emulator.errors import InputError

if TYPE_CHECKING:
    from emulator.cli.parser import Parser

EXAMPLE = """example:
  charkha launch ssh --host root@server0 --host root@server1 --interface eth1 \\
      -- run traces/my-job --topology rack.yaml

Starts the agents that the topology names: the first on the first host, and so on. Without --host, a
host has the name of its agent. docs/launch.md explains it.
"""


def _login(text: str) -> str:
    from emulator.launch.ssh import Login

    Login.parse(text)
    return text


def add_options(parser: Parser) -> None:
    """What the engine takes beside the command."""
    parser.add_argument(
        "--host",
        metavar="[USER@]HOST[:PORT]",
        type=argument(_login),
        action="append",
        default=[],
        help="of an agent, in the topology's order (repeatable)",
    )
    add_interfaces(parser)
    parser.add_argument("--charkha", metavar="COMMAND", default="charkha", help="how to start Charkha there")
    parser.add_argument("--address", help="of this machine, as agents know it (default: the end of the connection)")
    parser.add_argument("--config", metavar="FILE", type=Path, help="as OpenSSH's -F (default: ~/.ssh/config)")
    add_insecure(parser)


def run(args: argparse.Namespace, command: Sequence[str]) -> int:
    """Play the command with agents over SSH.

    Raises:
        EmulatorError: a host that cannot be reached or is not known, a topology without agents, an agent that ends.
    """
    from emulator.launch.ssh import Login, SshEngine

    refuse_own_control(command)
    agents = agents_of(command)
    hosts = args.host or agents
    if len(hosts) != len(agents):
        raise InputError(f"the topology names {len(agents)} agents ({', '.join(agents)}): give as many --host")
    logins = {name: Login.parse(host) for name, host in zip(agents, hosts, strict=True)}
    placement = placement_of(args, agents)
    engine = SshEngine(placement, logins, charkha=args.charkha, address=args.address, config=args.config)
    return print_or_play(engine, args, command)
