"""`charkha launch`: agents started on machines or by what a cluster has, for one command."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import TYPE_CHECKING

from emulator.errors import InputError

if TYPE_CHECKING:
    from emulator.cli.parser import Subparsers

ENGINES = {
    "local": "as processes of this machine",
    "ssh": "over SSH",
    "slurm": "as a step of a Slurm job",
    "kubernetes": "as pods of an Indexed Job",
    "ray": "as actors of a Ray cluster",
}
_EXAMPLE = """example:
  charkha launch ray --interface eth1 -- run traces/my-job --topology rack.yaml
"""
PLAYS = ("run", "bench", "controller")


def add_parser(subparsers: Subparsers) -> None:
    """Add `launch` to the command line."""
    parser = subparsers.add_parser(
        "launch",
        description="Start agents on machines or the nodes of a cluster, play one command, and remove them.",
        epilog=_EXAMPLE,
    )
    engines = parser.add_subparsers(title="engines", metavar="ENGINE", required=True)
    for name, text in ENGINES.items():
        module = import_module(f"emulator.cli.options.launch_{name}")
        engine = engines.add_parser(name, help=text, description=f"Start agents {text}.", epilog=module.EXAMPLE)
        engine.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="run … or bench …")
        engine.add_argument("--print", action="store_true", help="print what would be started, and start nothing")
        module.add_options(engine)
        engine.set_defaults(handler=_run, engine=module)


def _run(args: argparse.Namespace) -> int:
    words = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not words or words[0] not in PLAYS:
        raise InputError(f"give the command after --: one of {', '.join(PLAYS)}")
    code: int = args.engine.run(args, words)
    return code
