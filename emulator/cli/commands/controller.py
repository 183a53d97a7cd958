"""`charkha controller`: `charkha run` with agents that are all started by hand."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from emulator.cli.commands.run import add_run_options, run

if TYPE_CHECKING:
    from emulator.cli.parser import Subparsers

_EXAMPLE = """example:
  charkha controller trace/ --topology rack.yaml --listen 192.0.2.1:4790 --identity controller.pem

Like `charkha run`, but it does not start any agent: start the agent of every host by hand, with
`charkha agent`. An agent has the name that the topology's `agents` gives it, else its host's name.
docs/physical.md walks through it.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `controller` to the command line."""
    parser = subparsers.add_parser(
        "controller",
        description="Play a trace with agents that were started by hand, on this machine or others.",
        epilog=_EXAMPLE,
    )
    add_run_options(parser)
    parser.set_defaults(handler=partial(run, by_hand=True))
