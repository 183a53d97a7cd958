"""Removal of network namespaces: end what runs inside them, then delete them with all devices in them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from emulator.device.lab.commands import attempt
from emulator.device.lab.recipe import CommandBatch

NAMESPACES = Path("/run/netns")
"""Where iproute2 keeps named network namespaces."""
TERM_GRACE_S = 1.0


def existing(namespaces: Iterable[str]) -> list[str]:
    """Those of these namespaces that exist."""
    return [name for name in namespaces if (NAMESPACES / name).exists()]


def processes_in(namespaces: Iterable[str]) -> list[int]:
    """Process ids of what runs inside these namespaces."""
    printed = (attempt(CommandBatch(("ip", "netns", "pids", name))) for name in namespaces)
    return [int(word) for text in printed for word in text.split()]


def remove_namespaces(namespaces: Sequence[str]) -> list[str]:
    """End what runs inside these namespaces and delete them; returns those that remain."""
    present = existing(namespaces)
    _end_processes(present)
    attempt(CommandBatch(("ip", "-force", "-batch", "-"), [f"netns delete {name}" for name in present]))
    return existing(present)


def _end_processes(namespaces: Sequence[str]) -> None:
    """Send SIGTERM to what runs inside, and SIGKILL to what is left after a grace period."""
    deadline = time.monotonic() + TERM_GRACE_S
    number = signal.SIGTERM
    while pids := [pid for pid in processes_in(namespaces) if pid != os.getpid()]:
        if time.monotonic() > deadline:
            number = signal.SIGKILL
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        time.sleep(0.02)
