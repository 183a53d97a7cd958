"""The commands of a user inside a lab, and the end of what runs there.

Network namespaces are removed with all devices in them, after what runs inside them has ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NoReturn

from emulator.device.lab.model import Design
from emulator.device.lab.recipe import exec_prefix
from emulator.errors import HostError, InputError
from emulator.host.resources import exhausted
from emulator.host.tools import CommandBatch, attempt, here

_OWN_NAMESPACE = "/proc/thread-self/ns/net"


def require_root(what: str = "a lab") -> None:
    """Check that the user is root.

    Args:
        what: is to be made, for the error.

    Raises:
        HostError: the user is not root.
    """
    if here().user() != 0:
        raise HostError(f"{what} needs network namespaces and therefore root: run the command with sudo")


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
    if here().user() != 0:
        raise HostError("entering a network namespace needs root: run the command with sudo")
    sys.stdout.flush()
    words = [*exec_prefix(design.node(name)), *command]
    here().become(words[0], words)


TERM_GRACE_S = 1.0


def existing(namespaces: Iterable[str]) -> list[str]:
    """Those of these namespaces that exist."""
    return [name for name in namespaces if (here().namespaces / name).exists()]


def processes_in(namespaces: Iterable[str]) -> list[int]:
    """Process ids of what runs inside these namespaces."""
    printed = (attempt(CommandBatch(("ip", "netns", "pids", name))) for name in namespaces)
    return [int(word) for text in printed for word in text.split()]


def remove_namespaces(namespaces: Sequence[str]) -> list[str]:
    """End what runs inside these namespaces and delete them; returns those that remain."""
    present = existing(namespaces)
    end_processes(lambda: processes_in(present))
    attempt(CommandBatch(("ip", "-force", "-batch", "-"), [f"netns delete {name}" for name in present]))
    return existing(present)


def end_processes(
    running: Callable[[], Sequence[int]],
    *,
    kill: Callable[[int, int], None] = os.kill,
    clock: Callable[[], float] = time.monotonic,
    pause_s: float = 0.02,
) -> None:
    """Send SIGTERM to processes, and SIGKILL to what is left after a grace period; this process is spared.

    Args:
        running: those that still run.
        kill, clock: of this host.
        pause_s: between two looks.
    """
    deadline = clock() + TERM_GRACE_S
    number = signal.SIGTERM
    while pids := [pid for pid in running() if pid != os.getpid()]:
        if clock() > deadline:
            number = signal.SIGKILL
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                kill(pid, number)
        time.sleep(pause_s)


@contextlib.contextmanager
def inside(namespace: str | None) -> Iterator[None]:
    """Run the body of the `with` in a network namespace; only this thread enters it.

    Args:
        namespace: its name; None for the present one.

    Raises:
        HostError: it cannot be entered.
    """
    if namespace is None:
        yield
        return
    from pyroute2 import netns  # slow to import, and most commands do not need it

    own = os.open(_OWN_NAMESPACE, os.O_RDONLY)
    try:
        try:
            netns.setns(namespace)
        except OSError as error:
            what = f"namespace {namespace} cannot be entered ({error}): run the command with sudo"
            raise exhausted(error) or HostError(what) from error
        yield
    finally:
        netns.setns(own)
        os.close(own)
