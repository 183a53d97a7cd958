"""`charkha agent launch`: agents started on machines or by what a cluster has, for one command."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from emulator.annexes.launch import launch_here
from emulator.cli.words import renamed
from emulator.errors import InputError
from emulator.plugins import BUILT_IN, PluginKind, installed, load

if TYPE_CHECKING:
    from emulator.cli.parser import Subparsers

_EXAMPLE = """example:
  charkha agent launch slurm --interface eth1 -- run traces/my-job --topology rack.yaml
"""
PLAYS = ("run", "bench")


def add_parser(subparsers: Subparsers) -> None:
    """Add `launch` to the command line."""
    parser = subparsers.add_parser(
        "launch",
        description="Start agents on machines or the nodes of a cluster, play one command, and remove the agents.",
        epilog=_EXAMPLE,
    )
    engines = parser.add_subparsers(title="engines", metavar="ENGINE", required=True)
    for name in (*BUILT_IN[PluginKind.ENGINES], *installed(PluginKind.ENGINES)):
        one = load(PluginKind.ENGINES, name, launch_here.EngineOptions)
        engine = engines.add_parser(name, help=one.text, description=f"Start agents {one.text}.", epilog=one.example)
        engine.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="run … or bench …")
        engine.add_argument("--print", action="store_true", help="print what would be started, without starting it")
        one.add(engine)
        engine.set_defaults(handler=_run, engine=one)


def _run(args: argparse.Namespace) -> int:
    words = args.command[1:] if args.command[:1] == ["--"] else args.command
    words = renamed(words)
    if not words or words[0] not in PLAYS:
        raise InputError(f"give the command after --: one of {', '.join(PLAYS)}")
    launch_here.refuse_own_control(words)
    engine: launch_here.EngineOptions = args.engine
    return engine.run(args, words)
