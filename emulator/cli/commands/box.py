"""`charkha box`: the old words of a lab between two real ports, until 1.0."""

from __future__ import annotations

import argparse

from emulator.cli.commands.lab import bridge, profile_of
from emulator.cli.output import notify, print_json, print_line
from emulator.cli.parser import Subparsers, argument
from emulator.device.lab.between import DEFAULT_ID
from emulator.device.lab.labs import Labs
from emulator.device.lab.state import LabState
from emulator.device.profile.load import find_profile, load_profile
from emulator.device.profile.standing import apply, passed
from emulator.errors import InputError
from emulator.units import parse_rate
from emulator.views.terminal import between_table
from emulator.views.terminal.console import console

_EPILOG = """example:
  charkha box up eth1 eth2 --profile lossy-link
  charkha box status
  charkha box apply fw-b
  charkha box down

Both interfaces must be free: no address, no other bridge. A box needs root (docs/box.md).
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `box` to the command line."""
    parser = subparsers.add_parser(
        "box",
        description="Bridge two interfaces of this machine, and drop, mark, delay or duplicate frames between them.",
        epilog=_EPILOG,
    )
    actions = parser.add_subparsers(title="actions", metavar="up|apply|status|down", required=True)
    _add_up(actions)
    _add_apply(actions)
    _add_status(actions)
    _add_down(actions)


def _add_up(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "up",
        help="bridge two interfaces",
        description="Bridge two interfaces of this machine that nothing else uses.",
        epilog="example:\n  charkha box up eth1 eth2 --profile lossy-link\n",
    )
    parser.add_argument("between", metavar="PORT", nargs=2, help="an interface of this machine")
    parser.add_argument("--profile", metavar="FILE|NAME", help="a firmware profile (default: the box only forwards)")
    parser.add_argument(
        "--rate",
        metavar="RATE",
        type=argument(parse_rate),
        help="rate limit of both ports, for example 10Gbit; shares of a rate refer to it",
    )
    parser.add_argument("--id", metavar="ID", default=DEFAULT_ID, help=f"name of the box (default: {DEFAULT_ID})")
    parser.set_defaults(handler=bridge)


def _add_apply(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "apply",
        help="replace the profile of a box",
        description="Replace the profile of a box. The counters of rules restart at 0.",
        epilog="example:\n  charkha box apply fw-b\n",
    )
    parser.add_argument("profile", metavar="FILE|NAME", help="a firmware profile; fw-a has no rules")
    parser.add_argument("--id", metavar="ID", help="the box (default: the only one)")
    parser.set_defaults(handler=_apply)


def _add_status(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "status",
        help="show what passed and what the rules did",
        description="Show what passed through a box and what its rules did.",
        epilog="example:\n  charkha box status --json\n",
    )
    parser.add_argument("id", metavar="ID", nargs="?", help="the box (default: the only one)")
    parser.add_argument("--json", action="store_true", help="print the same as JSON")
    parser.add_explain("between_table")
    parser.set_defaults(handler=_status)


def _add_down(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "down",
        help="give the interfaces back",
        description="Give the interfaces of a box back in their former state.",
        epilog="example:\n  charkha box down box\n",
    )
    parser.add_argument("id", metavar="ID", nargs="?", help="the box (default: the only one)")
    parser.set_defaults(handler=_down)


def _found(labs: Labs, box_id: str | None) -> LabState:
    """The lab between two real ports of that id, or the only one."""
    states = {state.lab_id: state for state in labs.store.states() if state.between is not None}
    known = ", ".join(states)
    if not states or (box_id is not None and box_id not in states):
        which = "no box is up" if box_id is None else f"there is no box {box_id!r} (boxes: {known or 'none'})"
        raise InputError(f"{which}; `charkha lab up --between PORT PORT` brings one up")
    if box_id is None and len(states) > 1:
        raise InputError(f"there are several boxes; choose one: {known}")
    return states[box_id or known]


def _apply(args: argparse.Namespace) -> None:
    profile, labs = load_profile(find_profile(args.profile)), Labs()
    state = apply(labs, _found(labs, args.id), profile)
    print_line(f"Box {state.lab_id}{profile_of(state)}")


def _status(args: argparse.Namespace) -> None:
    state = _found(Labs(), args.id)
    counted = passed(state)
    if args.json:
        namespace = state.design.nodes[0].namespace
        print_json({"id": state.lab_id, "namespace": namespace, "created": state.created, **counted.to_json()})
    else:
        console().print(between_table.render(state, counted, kind="box"))


def _down(args: argparse.Namespace) -> None:
    labs = Labs()
    state = _found(labs, args.id)
    labs.down(state.lab_id)
    if state.between is not None:
        notify(f"{' and '.join(state.between.names)} are free again")
    print_line(f"Removed: {state.lab_id}")
