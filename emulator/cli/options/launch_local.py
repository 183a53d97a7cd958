"""`charkha launch local`: its options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from emulator.cli.options.launch_here import (
    add_interfaces,
    agents_of,
    placement_of,
    print_or_play,
    refuse_own_control,
)

if TYPE_CHECKING:
    from emulator.cli.parser import Parser

EXAMPLE = """example:
  charkha launch local -- run traces/my-job --topology two-agents.yaml

Starts every agent that the topology names as a process of this machine, to try a topology of
several machines on one. docs/launch.md explains it.
"""


def add_options(parser: Parser) -> None:
    """What the engine takes beside the command."""
    add_interfaces(parser)


def run(args: argparse.Namespace, command: Sequence[str]) -> int:
    """Play the command with agents on this machine.

    Raises:
        EmulatorError: a topology without agents, an agent that ends.
    """
    from emulator.launch.local import LocalEngine

    refuse_own_control(command)
    return print_or_play(LocalEngine(placement_of(args, agents_of(command))), args, command)
