"""`charkha controller`: `charkha run` with agents that are all started by hand."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from emulator.cli.commands.run import add_run_options

if TYPE_CHECKING:
    from emulator.cli.options.arguments import Subparsers

_EXAMPLE = """example:
  charkha controller lab/examples/transformer-8r --topology rack.yaml --listen 192.0.2.1:4790 --token-file token

`charkha run`, but it starts no agent itself: every host's agent is started by hand, with `charkha agent`. Its name is
that of the topology's `agents`, else the host's. docs/physical.md walks through it.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `controller` to the command line."""
    parser = subparsers.add_parser(
        "controller",
        help="as run, with agents that are all started by hand",
        description="Play a trace with agents that were started by hand, on this machine or others.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run_options(parser, is_by_hand=True)
