"""`charkha lab`: a lab of network namespaces with a software switch as device under test."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.errors import HostError, InputError
from emulator.lab.capacity import judge
from emulator.lab.labs import Labs, lab_id_of
from emulator.lab.recipe import inside
from emulator.lab.status import describe
from emulator.topology.load import load_topology
from emulator.views.terminal.console import console
from emulator.views.terminal.lab_picture import draw
from emulator.visible import visible

if TYPE_CHECKING:
    from emulator.cli.options.arguments import Subparsers

_EXAMPLE = """example:
  charkha lab up topologies/two-hosts-switch.yaml
  charkha run lab/examples/transformer-8r --topology topologies/two-hosts-switch.yaml
  charkha lab status
  charkha lab exec h0 ip address
  charkha lab down

A lab takes root. docs/lab.md says what it is made of.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `lab` to the command line."""
    parser = subparsers.add_parser(
        "lab",
        help="raise a lab of namespaces with a software switch as DUT",
        description="A lab of network namespaces on this host: hosts, cables with rates, a real software switch.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(title="commands", metavar="up|down|exec|status", required=True)
    _add_up(commands)
    _add_down(commands)
    _add_exec(commands)
    _add_status(commands)


def _add_up(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "up",
        help="raise the lab of a topology",
        description="Raise the lab of a topology: its hosts, switches and links.",
        epilog="example:\n  charkha lab up topologies/eight-hosts-switch.yaml\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("topology", metavar="TOPOLOGY", type=Path, help="a topology file that draws links")
    parser.add_argument("--id", metavar="ID", help="what the lab is called (default: the topology's name)")
    parser.add_argument(
        "--allow-network", metavar="PREFIX", action="append", default=[], help="as `charkha run --allow-network`"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="raise it although this host cannot carry all its rates at once; its runs are marked tester-limited",
    )
    parser.set_defaults(handler=up)


def _add_down(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "down",
        help="remove a lab and all that runs in it",
        description="Remove exactly what a lab made, and end what runs in it; a lab that is not there is no error.",
        epilog="example:\n  charkha lab down --all\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("id", metavar="ID", nargs="?", help="of the lab (default: the only one)")
    parser.add_argument("--all", action="store_true", help="all labs of this host")
    parser.set_defaults(handler=down)


def _add_exec(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "exec",
        help="run a command on a host or switch of a lab",
        description="Run a command on a host or switch of a lab; its exit code is this command's.",
        epilog="example:\n  charkha lab exec h0 tcpdump -i eth0 -c 10 udp port 4791\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--lab", metavar="ID", help="the lab (default: the only one)")
    parser.add_argument("host", metavar="HOST", help="a host or switch of the topology")
    parser.add_argument("command", metavar="CMD", nargs=argparse.REMAINDER, help="a command and its arguments")
    parser.set_defaults(handler=execute)


def _add_status(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "status",
        help="show labs as a picture, with rates and counters",
        description="Show a lab as a picture: hosts, switches, rates, and what the kernel has counted.",
        epilog="example:\n  charkha lab status --json\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("id", metavar="ID", nargs="?", help="of the lab (default: all)")
    parser.add_argument("--json", action="store_true", help="the same as JSON on stdout")
    parser.set_defaults(handler=status)


def up(args: argparse.Namespace) -> int:
    """Raise a lab; prints what it is made of.

    Raises:
        InputError: the topology cannot be a lab.
        HostError: no root, a tool is missing, or the rates are more than this host carries.
    """
    topology = load_topology(args.topology, ranks=0, allow_networks=args.allow_network)
    lab_id = lab_id_of(topology, args.id)
    limited = judge(topology.network)
    if limited is not None and not args.force:
        raise HostError(f"{limited}; --force raises the lab all the same, and marks its runs tester-limited")
    state = Labs().up(topology, lab_id=lab_id, limited=limited)
    for note in (*topology.notes, *state.design.notes, *([limited] if limited else [])):
        print(f"charkha: {visible(note)}", file=sys.stderr)
    hosts = sum(node.is_host for node in state.design.nodes)
    switches = len(state.design.nodes) - hosts
    print(f"Lab {lab_id} is up: {hosts} hosts, {switches} switches, {len(state.design.cables)} links")
    return 0


def down(args: argparse.Namespace) -> int:
    """Remove one lab or all.

    Raises:
        InputError: several labs, and none named.
        HostError: no root, or something stays.
    """
    labs = Labs()
    ids = labs.store.ids()
    if args.id is None and not args.all and len(ids) > 1:
        raise InputError(f"there are several labs, name one or give --all: {', '.join(ids)}")
    wanted = [args.id] if args.id is not None else ids
    removed = [lab_id for lab_id in wanted if labs.down(lab_id)]
    print(f"Removed: {', '.join(removed)}" if removed else "There is no such lab: nothing to remove")
    return 0


def execute(args: argparse.Namespace) -> int:
    """Become a command inside a namespace; returns only where that fails.

    Raises:
        InputError: no such lab or host, no command.
        HostError: no root.
    """
    if not args.command:
        raise InputError("charkha lab exec HOST CMD: which command?")
    design = Labs().only(args.lab).design
    known = [node.name for node in design.nodes]
    if args.host not in known:
        raise InputError(f"lab {design.lab_id} has no host or switch {args.host!r}; it has {', '.join(known)}")
    if os.geteuid() != 0:
        raise HostError("entering a network namespace takes root: run the command with sudo")
    sys.stdout.flush()
    command = [*inside(design.node(args.host)), *args.command]
    os.execvp(command[0], command)


def status(args: argparse.Namespace) -> int:
    """Show one lab or all.

    Raises:
        InputError: no such lab.
    """
    labs = Labs()
    states = [labs.get(args.id)] if args.id is not None else list(labs.store.states())
    described = [describe(state) for state in states]
    if args.json:
        print(json.dumps([one.to_json() for one in described], indent=2))
        return 0
    out = console()
    for one in described:
        out.print(draw(one), highlight=False, soft_wrap=True)
    if not described:
        out.print("No lab is up. `charkha lab up FILE` raises one.")
    return 0
