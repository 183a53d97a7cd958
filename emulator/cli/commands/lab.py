"""`charkha lab`: network namespaces around a software switch as device under test.

`charkha box`: the old words of a lab between two real ports, until 1.0.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from emulator.cli.output import notify, print_json, print_line
from emulator.cli.parser import Parser, Subparsers, argument
from emulator.control.authentication import TOKEN_VARIABLE, token_of_environment
from emulator.device.lab import commands
from emulator.device.lab.between import DEFAULT_ID
from emulator.device.lab.commands import existing
from emulator.device.lab.labs import Labs, judge, lab_id_of
from emulator.device.lab.state import UP, LabState, Party
from emulator.device.lab.status import describe
from emulator.device.profile.applying import undo_leftovers
from emulator.device.profile.load import find_profile, load_profile
from emulator.device.profile.standing import Passed, apply, passed, up_between
from emulator.errors import HostError, InputError
from emulator.topology.load import load_topology
from emulator.units import parse_rate
from emulator.views.terminal import between_table
from emulator.views.terminal.console import console
from emulator.views.terminal.lab_picture import draw

_EPILOG = """example:
  charkha lab up topologies/two-hosts-switch.yaml
  charkha run lab/examples/transformer-8r --topology topologies/two-hosts-switch.yaml
  charkha lab status
  charkha lab exec h0 ip address
  charkha lab down topologies/two-hosts-switch.yaml
  charkha lab up --between eth1 eth2 --profile lossy-link

A lab needs root. docs/lab.md describes its parts, docs/box.md a lab between two real ports.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `lab` to the command line."""
    parser = subparsers.add_parser(
        "lab",
        description="Manage labs: network namespaces as hosts, links with rates, a real software switch.",
        epilog=_EPILOG,
    )
    actions = parser.add_subparsers(title="actions", metavar="up|down|exec|status|probe", required=True)
    _add_up(actions)
    _add_down(actions)
    _add_exec(actions)
    _add_status(actions)


def _add_up(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "up",
        help="bring up the lab of a topology",
        description="Bring up the hosts, switches and links of a topology, or a bridge between two interfaces of this\n"
        "machine; mend the lab if it is up already.",
        epilog="example:\n  charkha lab up topologies/eight-hosts-switch.yaml\n"
        "  charkha lab up --between eth1 eth2 --profile lossy-link\n"
        "  charkha lab up --between eth1 eth2 --profile fw-b     # another profile, while it stands\n",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("topology", metavar="TOPOLOGY", type=Path, nargs="?", help="a topology file with links")
    what.add_argument(
        "--between", metavar="PORT", nargs=2, help="two interfaces of this machine, free: no address, no other bridge"
    )
    parser.add_argument(
        "--profile", metavar="FILE|NAME", help="between two interfaces: a firmware profile, in force until another is"
    )
    parser.add_argument(
        "--rate",
        metavar="RATE",
        type=argument(parse_rate),
        help="between two interfaces: rate limit of both, for example 10Gbit; shares of a rate refer to it",
    )
    parser.add_argument("--id", metavar="ID", help=f"name of the lab (default: the topology's name, or {DEFAULT_ID})")
    parser.add_argument(
        "--allow-network", metavar="PREFIX", action="append", default=[], help="allow addresses of this prefix"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="bring it up even if this machine cannot handle all its rates at once; its runs are marked tester-limited",
    )
    parser.add_argument(
        "--service", metavar="FOLDER", type=Path, help="a lab for the runs of this service (default: for your own)"
    )
    parser.set_defaults(handler=_up)


def _add_down(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "down",
        help="remove a lab and everything that runs in it",
        description="Remove exactly what a lab created, and end everything that runs in it.",
        epilog="example:\n  charkha lab down topologies/two-hosts-switch.yaml\n",
    )
    parser.add_argument("lab", metavar="ID|TOPOLOGY", nargs="?", help="the lab or its file (default: the only lab)")
    parser.add_argument("--all", action="store_true", help="all labs on this host, or all of the topology")
    parser.add_argument("--if-exists", action="store_true", help="do not fail if there is no such lab")
    parser.set_defaults(handler=_down)


def _add_exec(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "exec",
        usage="charkha lab exec [--lab ID] HOST CMD ...",
        help="run a command on a host or switch of a lab",
        description="Run a command on a host or switch of a lab, and return its exit code.",
        epilog="example:\n  charkha lab exec h0 tcpdump -i eth0 -c 10 udp port 4791\n",
    )
    parser.add_argument("--lab", metavar="ID", help="the lab (default: the only one)")
    parser.add_argument("host", metavar="HOST", help="a host or switch of the topology")
    parser.add_argument("command", metavar="CMD", nargs=argparse.REMAINDER, help="a command and its arguments")
    parser.set_defaults(handler=_execute)


def _add_status(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "status",
        help="show labs, with rates and counters",
        description="Show a lab: hosts, switches, rates and kernel counters.",
        epilog="example:\n  charkha lab status --json\n",
    )
    parser.add_argument("id", metavar="ID", nargs="?", help="the lab (default: all)")
    parser.add_argument("--json", action="store_true", help="print the same as JSON")
    parser.add_explain("lab_picture")
    parser.set_defaults(handler=_status)


def _up(args: argparse.Namespace) -> None:
    if args.between is not None:
        if args.allow_network or args.force or args.service is not None:
            option = "--allow-network" if args.allow_network else "--force" if args.force else "--service"
            raise InputError(f"{option} belongs to the lab of a topology, not to --between")
        bridge(args)
        return
    if args.profile is not None or args.rate is not None:
        option = "--profile" if args.profile is not None else "--rate"
        raise InputError(f"{option} belongs to --between; `charkha run --profile` applies a profile during a run")
    topology = load_topology(args.topology, ranks=0, allow_networks=args.allow_network)
    lab_id = lab_id_of(topology.name, args.id)
    party, labs = Party.me(), Labs()
    if args.service is not None:
        party = replace(party, service=str(args.service.resolve()))
    standing = labs.standing(topology, lab_id, party=party)
    if standing is not None:
        undo_leftovers(standing.design, labs.store.folder(lab_id))
        down = labs.mend(standing)
        found = f"Ports that were down: {', '.join(map(str, down))}" if down else "No port was down"
        print_line(f"Lab {lab_id} was up already, and has all its links and routes. {found}")
        return
    limited = judge(topology.network)
    if limited is not None and not args.force:
        raise HostError(f"{limited}; --force brings the lab up anyway and marks its runs tester-limited")
    state = labs.up(topology, lab_id=lab_id, limited=limited, party=party)
    for note in (*topology.notes, *state.design.notes, *([limited] if limited else [])):
        notify(note)
    design = state.design
    hosts = sum(node.is_host for node in design.nodes)
    print_line(
        f"Lab {lab_id} is up. Hosts: {hosts}, switches: {len(design.nodes) - hosts}, links: {len(design.cables)}"
    )


def bridge(args: argparse.Namespace) -> None:
    """Bring up a lab between two ports, or give the one that is there another profile."""
    labs, lab_id = Labs(), lab_id_of(DEFAULT_ID, args.id)
    profile = load_profile(find_profile(args.profile)) if args.profile is not None else None
    state = labs.standing_between(args.between, lab_id, rate_bps=args.rate)
    found = " was up already"
    if state is None:
        state, found = up_between(labs, args.between, profile=profile, rate_bps=args.rate, lab_id=lab_id), " is up"
    else:
        labs.mend(state)
        state = apply(labs, state, profile) if profile is not None else state
    print_line(f"Lab {lab_id}{found} between {' and '.join(args.between)}{profile_of(state)}")


def profile_of(state: LabState) -> str:
    """The end of a line about a lab between two real ports."""
    name = state.between.profile if state.between is not None else None
    return f", with profile {name}" if name is not None else ", without a profile"


def _down(args: argparse.Namespace) -> None:
    labs = Labs()
    ids = labs.to_remove(args.lab, several=args.all, none=args.all or args.if_exists)
    removed = [lab_id for lab_id in ids if labs.down(lab_id)]
    print_line(f"Removed: {', '.join(removed)}" if removed else "There is no such lab: nothing to remove")


def _execute(args: argparse.Namespace) -> NoReturn:
    if not args.command:
        raise InputError("give a command: charkha lab exec HOST CMD")
    if (token := token_of_environment()) is not None:
        os.environ[TOKEN_VARIABLE] = token  # it may be an agent, of the same user
    commands.execute(Labs().only(args.lab).design, args.host, args.command)


def _status(args: argparse.Namespace) -> None:
    labs = Labs()
    states = [labs.get(args.id)] if args.id is not None else list(labs.store.states())
    counted = [(describe(state), _passed(state)) for state in states]
    if args.json:
        print_json([one.to_json() | ({"between": through.to_json()} if through else {}) for one, through in counted])
    elif counted:
        for one, through in counted:
            picture = draw(one) if through is None else between_table.render(one.state, through)
            console().print(picture, highlight=False, soft_wrap=True)
    else:
        print_line("No lab is up. `charkha lab up FILE` brings one up.")


def _passed(state: LabState) -> Passed | None:
    """What a lab between two real ports has counted; None without root, or if it is incomplete."""
    readable = state.between is not None and state.phase == UP and os.geteuid() == 0
    return passed(state) if readable and existing([state.design.nodes[0].namespace]) else None


_BOX_EPILOG = """example:
  charkha box up eth1 eth2 --profile lossy-link
  charkha box status
  charkha box apply fw-b
  charkha box down

Both interfaces must be free: no address, no other bridge. A box needs root (docs/box.md).
"""


def add_box(subparsers: Subparsers) -> None:
    """Add `box` to the command line."""
    parser = subparsers.add_parser(
        "box",
        description="Bridge two interfaces of this machine, and drop, mark, delay or duplicate frames between them.",
        epilog=_BOX_EPILOG,
    )
    actions = parser.add_subparsers(title="actions", metavar="up|apply|status|down", required=True)
    up = _add_box_action(actions, "up", bridge, "bridge two interfaces", "up eth1 eth2 --profile lossy-link")
    up.add_argument("between", metavar="PORT", nargs=2, help="an interface of this machine that nothing else uses")
    up.add_argument("--profile", metavar="FILE|NAME", help="a firmware profile (default: the box only forwards)")
    up.add_argument(
        "--rate",
        metavar="RATE",
        type=argument(parse_rate),
        help="rate limit of both ports, for example 10Gbit; shares of a rate refer to it",
    )
    up.add_argument("--id", metavar="ID", default=DEFAULT_ID, help=f"name of the box (default: {DEFAULT_ID})")
    replaced = _add_box_action(
        actions, "apply", _apply_to_box, "replace the profile of a box; counters restart at 0", "apply fw-b"
    )
    replaced.add_argument("profile", metavar="FILE|NAME", help="a firmware profile; fw-a has no rules")
    replaced.add_argument("--id", metavar="ID", help="the box (default: the only one)")
    status = _add_box_action(actions, "status", _box_status, "show what passed and what the rules did", "status --json")
    status.add_argument("--json", action="store_true", help="print the same as JSON")
    status.add_explain("between_table")
    down = _add_box_action(
        actions, "down", _box_down, "give the interfaces of a box back in their former state", "down box"
    )
    for parser in (status, down):
        parser.add_argument("id", metavar="ID", nargs="?", help="the box (default: the only one)")


def _add_box_action(
    actions: Subparsers, word: str, handler: Callable[[argparse.Namespace], None], summary: str, example: str
) -> Parser:
    description = f"{summary[0].upper()}{summary[1:]}."
    epilog = f"example:\n  charkha box {example}\n"
    parser = actions.add_parser(word, help=summary, description=description, epilog=epilog)
    parser.set_defaults(handler=handler)
    return parser


def _found_box(labs: Labs, box_id: str | None) -> LabState:
    """The lab between two real ports of that id, or the only one."""
    states = {state.lab_id: state for state in labs.store.states() if state.between is not None}
    known = ", ".join(states)
    if not states or (box_id is not None and box_id not in states):
        which = "no box is up" if box_id is None else f"there is no box {box_id!r} (boxes: {known or 'none'})"
        raise InputError(f"{which}; `charkha lab up --between PORT PORT` brings one up")
    if box_id is None and len(states) > 1:
        raise InputError(f"there are several boxes; choose one: {known}")
    return states[box_id or known]


def _apply_to_box(args: argparse.Namespace) -> None:
    profile, labs = load_profile(find_profile(args.profile)), Labs()
    state = apply(labs, _found_box(labs, args.id), profile)
    print_line(f"Box {state.lab_id}{profile_of(state)}")


def _box_status(args: argparse.Namespace) -> None:
    state = _found_box(Labs(), args.id)
    counted = passed(state)
    if args.json:
        namespace = state.design.nodes[0].namespace
        print_json({"id": state.lab_id, "namespace": namespace, "created": state.created, **counted.to_json()})
    else:
        console().print(between_table.render(state, counted, kind="box"))


def _box_down(args: argparse.Namespace) -> None:
    labs = Labs()
    state = _found_box(labs, args.id)
    labs.down(state.lab_id)
    if state.between is not None:
        notify(f"{' and '.join(state.between.names)} are free again")
    print_line(f"Removed: {state.lab_id}")
