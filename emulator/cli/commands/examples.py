"""`charkha help examples`: the topologies, traces, profiles and suites that come with Charkha."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from itertools import groupby

from emulator.cli.output import print_json
from emulator.cli.parser import Subparsers
from emulator.errors import InputError
from emulator.experiment.series.suite.document import shipped_suites
from emulator.shipped import PROFILES, TOPOLOGIES, TRACES, first_line
from emulator.suggestions import did_you_mean

_EPILOG = """example:
  charkha help examples
  cp "$(charkha help examples rack-template)" rack.yaml

Commands accept the names: charkha run transformer-8r --topology two-hosts-switch.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `examples` to the command line."""
    text = "List the topologies, traces, profiles and suites that come with Charkha."
    parser = subparsers.add_parser("examples", description=text, epilog=_EPILOG)
    parser.add_argument("name", metavar="NAME", nargs="?", help="print the path of this one")
    parser.add_argument("--json", action="store_true", help="print kind, name, path and first line of each as JSON")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> None:
    kinds = {
        "topologies": TOPOLOGIES.paths,
        "traces": TRACES.paths,
        "profiles": PROFILES.paths,
        "suites": shipped_suites(),
    }
    found = [
        {"kind": kind, "name": name, "path": str(path), "description": first_line(path)}
        for kind, paths in kinds.items()
        for name, path in paths.items()
    ]
    if args.name is not None:
        print(_path({one["name"]: one["path"] for one in found}, args.name))
    elif args.json:
        print_json(found)
    else:
        for kind, rows in groupby(found, key=lambda one: one["kind"]):
            print(kind, *(f"  {one['name']:<20}{one['description']}".rstrip() for one in rows), sep="\n")


def _path(paths: Mapping[str, str], name: str) -> str:
    if name not in paths:
        advice = did_you_mean(name, paths) or "; `charkha help examples` lists them"
        raise InputError(f"there is no example {name!r}{advice}")
    return paths[name]
