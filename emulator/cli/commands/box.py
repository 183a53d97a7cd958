"""`charkha box`: this machine between two devices, with the rules of a firmware profile."""

from __future__ import annotations

import argparse

from emulator.cli.options.converters import argument
from emulator.cli.output import notify, print_json
from emulator.cli.parser import Subparsers
from emulator.device.box.boxes import DEFAULT_ID, Boxes
from emulator.device.profile.load import find_profile, load_profile
from emulator.device.profile.profile import Profile
from emulator.units import parse_rate
from emulator.views.terminal import box_table
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
    parser.add_argument("ports", metavar="PORT", nargs=2, help="an interface of this machine")
    parser.add_argument("--profile", metavar="FILE|NAME", help="a firmware profile (default: the box only forwards)")
    parser.add_argument(
        "--rate",
        metavar="RATE",
        type=argument(parse_rate),
        help="rate limit of both ports, for example 10Gbit; shares of a rate refer to it",
    )
    parser.add_argument("--id", metavar="ID", default=DEFAULT_ID, help=f"name of the box (default: {DEFAULT_ID})")
    parser.set_defaults(handler=_up)


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
    parser.add_explain("box_table")
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


def _profile(text: str) -> Profile:
    return load_profile(find_profile(text))


def _up(args: argparse.Namespace) -> None:
    profile = _profile(args.profile) if args.profile is not None else None
    box = Boxes().up(args.ports, profile=profile, rate_bps=args.rate, box_id=args.id)
    one, other = box.ports
    print(f"Box {box.box_id} is up between {one.name} and {other.name}{_with(box.profile)}")


def _apply(args: argparse.Namespace) -> None:
    profile = _profile(args.profile)
    boxes = Boxes()
    box = boxes.apply(boxes.store.get(args.id), profile)
    print(f"Box {box.box_id}{_with(box.profile)}")


def _with(profile: str | None) -> str:
    return f", with profile {profile}" if profile is not None else ", without a profile"


def _status(args: argparse.Namespace) -> None:
    boxes = Boxes()
    status = boxes.status(boxes.store.get(args.id))
    if args.json:
        print_json(status.to_json())
    else:
        console().print(box_table.render(status))


def _down(args: argparse.Namespace) -> None:
    boxes = Boxes()
    box = boxes.store.get(args.id)
    boxes.down(box)
    notify(f"{box.ports[0].name} and {box.ports[1].name} are free again")
    print(f"Removed: {box.box_id}")
