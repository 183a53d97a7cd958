"""`charkha box`: the old words of a lab between two real ports, until 1.0."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from emulator.cli.commands.lab import bridge, profile_of
from emulator.cli.output import notify, print_json, print_line
from emulator.cli.parser import Parser, Subparsers, argument
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
    up = _action(actions, "up", bridge, "bridge two interfaces", "up eth1 eth2 --profile lossy-link")
    up.add_argument("between", metavar="PORT", nargs=2, help="an interface of this machine that nothing else uses")
    up.add_argument("--profile", metavar="FILE|NAME", help="a firmware profile (default: the box only forwards)")
    up.add_argument(
        "--rate",
        metavar="RATE",
        type=argument(parse_rate),
        help="rate limit of both ports, for example 10Gbit; shares of a rate refer to it",
    )
    up.add_argument("--id", metavar="ID", default=DEFAULT_ID, help=f"name of the box (default: {DEFAULT_ID})")
    replaced = _action(actions, "apply", _apply, "replace the profile of a box; counters restart at 0", "apply fw-b")
    replaced.add_argument("profile", metavar="FILE|NAME", help="a firmware profile; fw-a has no rules")
    replaced.add_argument("--id", metavar="ID", help="the box (default: the only one)")
    status = _action(actions, "status", _status, "show what passed and what the rules did", "status --json")
    status.add_argument("--json", action="store_true", help="print the same as JSON")
    status.add_explain("between_table")
    down = _action(actions, "down", _down, "give the interfaces of a box back in their former state", "down box")
    for parser in (status, down):
        parser.add_argument("id", metavar="ID", nargs="?", help="the box (default: the only one)")


def _action(
    actions: Subparsers, word: str, handler: Callable[[argparse.Namespace], None], summary: str, example: str
) -> Parser:
    description = f"{summary[0].upper()}{summary[1:]}."
    epilog = f"example:\n  charkha box {example}\n"
    parser = actions.add_parser(word, help=summary, description=description, epilog=epilog)
    parser.set_defaults(handler=handler)
    return parser


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
