"""Commands inside a lab, started by the user."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from emulator.device.lab.model import Design
from emulator.device.lab.recipe import exec_prefix
from emulator.errors import HostError, InputError


def execute(design: Design, name: str, command: Sequence[str]) -> NoReturn:
    """Replace this process by a command in the namespace of a host or switch.

    Args:
        design: of a lab that is up.
        name: the host or switch.
        command: the program and its arguments.

    Raises:
        InputError: the lab has no such host or switch.
        HostError: the user is not root.
    """
    known = [node.name for node in design.nodes]
    if name not in known:
        raise InputError(f"lab {design.lab_id} has no host or switch {name!r}; it has {', '.join(known)}")
    if os.geteuid() != 0:
        raise HostError("entering a network namespace needs root: run the command with sudo")
    sys.stdout.flush()
    words = [*exec_prefix(design.node(name)), *command]
    os.execvp(words[0], words)
