"""What `charkha launch local`, `ssh` and `slurm` have in common: the controller is a child of this command."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.errors import InputError

if TYPE_CHECKING:
    from emulator.cli.parser import Parser
    from emulator.launch.engine import Engine, Placement
    from emulator.topology.model import Topology


def add_interfaces(parser: Parser) -> None:
    """Options that every agent gets."""
    parser.add_argument(
        "--interface", metavar="NAME", action="append", default=[], help="port under test of each agent (repeatable)"
    )


def add_insecure(parser: Parser) -> None:
    """Control between machines without certificates."""
    parser.add_argument("--insecure", action="store_true", help="control without certificates, with a token")


def placement_of(args: argparse.Namespace, agents: Sequence[str], *, options: Sequence[str] = ()) -> Placement:
    """What is to be placed."""
    from emulator.launch.engine import Placement

    is_insecure = getattr(args, "insecure", False)
    return Placement(tuple(agents), tuple(args.interface), tuple(options), has_identities=not is_insecure)


def agents_of(command: Sequence[str]) -> list[str]:
    """Names of the agents that the topology of a command waits for, in the order of its hosts.

    Raises:
        InputError: the command has no topology, or it names no agents.
        TopologyError: the topology is not valid.
    """
    topology = topology_of(command)
    agents = topology.agents
    if not agents and command[0] == "controller":
        agents = {host.name: host.name for host in topology.hosts}
    found = dict.fromkeys(agents[host.name] for host in topology.hosts if host.name in agents)
    if not found:
        raise InputError(f"{topology.source} names no agents: add `agents: {{HOST: NAME}}`, or play `controller`")
    return list(found)


def topology_of(command: Sequence[str]) -> Topology:
    """The topology of a command, without ranks.

    Raises:
        InputError: it has none, or the command line is not valid.
        TopologyError: it is not valid.
    """
    from emulator.cli.main import build_parser
    from emulator.experiment.document import read_experiment
    from emulator.topology.load import load_topology

    args = build_parser(command[:1]).parse_args(command)
    given, allowed = getattr(args, "network.topology"), getattr(args, "network.allow_networks") or []
    if given is None and getattr(args, "file", None) is not None:
        network = read_experiment(args.file).network
        given, allowed = network.topology, [*allowed, *network.allow_networks]
    if given is None:
        raise InputError("the command needs --topology FILE: its `agents` say which agent serves which host")
    return load_topology(Path(given), ranks=0, allow_networks=allowed)


def refuse_own_control(command: Sequence[str]) -> None:
    """Where the controller listens, and what protects it, is the business of the launch.

    Raises:
        InputError: the command says it as well.
    """
    for word in command:
        if word.partition("=")[0] in ("--listen", "--identity", "--token-file", "--insecure", "--tls-cert"):
            raise InputError(f"{word}: leave it out of the command; the launch chooses it")


def print_or_play(engine: Engine, args: argparse.Namespace, command: Sequence[str]) -> int:
    """Print what an engine would do, or do it.

    Raises:
        EmulatorError: see `play`.
    """
    from emulator.launch.playing import play

    if args.print:
        print(engine.describe(command), end="")
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # agents are removed either way
    return play(engine, command)
