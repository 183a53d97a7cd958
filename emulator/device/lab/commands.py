"""Runs the commands of a recipe, and those of a user inside a lab.

A missing or failing tool becomes an error of one line that says what to do.

Network namespaces are removed with all devices in them, after what runs inside them has ended.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from emulator.device.lab.model import Design
from emulator.device.lab.recipe import CommandBatch, exec_prefix
from emulator.errors import HostError, InputError

PACKAGES = {
    "ip": "iproute2",
    "tc": "iproute2",
    "bridge": "iproute2",
    "ethtool": "ethtool",
    "nft": "nftables",
    "sysctl": "procps",
    "setpriv": "util-linux",
    "taskset": "util-linux",
    "ovsdb-tool": "openvswitch-switch",
    "ovsdb-server": "openvswitch-switch",
    "ovs-vswitchd": "openvswitch-switch",
    "ovs-vsctl": "openvswitch-switch",
    "ovs-ofctl": "openvswitch-switch",
    **{f"/usr/lib/frr/{daemon}": "frr" for daemon in ("zebra", "bgpd", "bfdd")},
    "vtysh": "frr",
}
"""Tool → its Debian package."""
_NO_ORPHAN = ("setpriv", "--pdeathsig", "KILL", "--")
"""Prefix of a command: it is killed with this process, so that it cannot add to a lab that is being taken down."""


def _finish(batch: CommandBatch) -> subprocess.CompletedProcess[str]:
    text = "".join(f"{line}\n" for line in batch.lines)
    return subprocess.run(batch.command, input=text, capture_output=True, text=True, check=False)


@dataclass(frozen=True, slots=True)
class CommandHost:
    """Where commands run.

    Attributes:
        finish: runs a batch, whatever comes of it; raises OSError if the tool is missing.
        which: path of a tool; None: it is not installed.
        user: effective user id.
        become: replaces this process by a program.
        namespaces: where iproute2 keeps named network namespaces.
    """

    finish: Callable[[CommandBatch], subprocess.CompletedProcess[str]] = _finish
    which: Callable[[str], str | None] = shutil.which
    user: Callable[[], int] = os.geteuid
    become: Callable[[str, list[str]], NoReturn] = os.execvp
    namespaces: Path = Path("/run/netns")


_HOSTS = [CommandHost()]


@contextlib.contextmanager
def on(host: CommandHost) -> Iterator[None]:
    """Run commands there meanwhile, in all threads."""
    _HOSTS.append(host)
    try:
        yield
    finally:
        _HOSTS.pop()


def require_root(what: str = "a lab") -> None:
    """Check that the user is root.

    Args:
        what: is to be made, for the error.

    Raises:
        HostError: the user is not root.
    """
    if _HOSTS[-1].user() != 0:
        raise HostError(f"{what} needs network namespaces and therefore root: run the command with sudo")


def require_tools(tools: Iterable[str]) -> None:
    """Check that all tools are installed.

    Raises:
        HostError: a tool is missing; the error names its package.
    """
    missing = sorted({tool for tool in tools if _HOSTS[-1].which(tool) is None})
    if missing:
        packages = sorted({PACKAGES.get(tool, tool) for tool in missing})
        raise HostError(f"{', '.join(missing)} is missing on this host: apt-get install {' '.join(packages)}")


def run(batch: CommandBatch, *, what: str = "the lab") -> str:
    """Run a batch and return its output.

    Args:
        batch: the command.
        what: it makes, for the error.

    Raises:
        HostError: the tool is missing or fails; the error has the line of the batch that failed.
    """
    try:
        done = finished(CommandBatch((*_NO_ORPHAN, *batch.command), batch.lines))
    except OSError as error:
        raise HostError(f"{batch.command[0]} cannot be run: {error.strerror}") from error
    if done.returncode:
        raise HostError(f"{what} cannot be created: {_refused(batch, done.stderr)}")
    return done.stdout


def attempt(batch: CommandBatch) -> str:
    """Run a batch, ignore errors, and return its output."""
    try:
        return finished(batch).stdout
    except OSError:
        return ""


def finished(batch: CommandBatch) -> subprocess.CompletedProcess[str]:
    """Run a batch, whatever comes of it.

    Raises:
        OSError: the tool is missing.
    """
    return _HOSTS[-1].finish(batch)


def _refused(batch: CommandBatch, stderr: str) -> str:
    said = [line.strip() for line in stderr.splitlines() if line.strip()]
    failed = next((line for line in said if line.startswith("Command failed")), "")
    number = failed.rpartition(":")[2]
    step = batch.lines[int(number) - 1] if number.isdecimal() and 0 < int(number) <= len(batch.lines) else ""
    reason = next((line for line in said if line != failed), "no reason given")
    return f"`{_shown(batch.command, step)}` failed ({reason})"


def _shown(command: Sequence[str], step: str) -> str:
    if not step:
        return " ".join(command)
    return " ".join([*(word for word in command if word not in ("-batch", "-force", "-")), step])


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
    if _HOSTS[-1].user() != 0:
        raise HostError("entering a network namespace needs root: run the command with sudo")
    sys.stdout.flush()
    words = [*exec_prefix(design.node(name)), *command]
    _HOSTS[-1].become(words[0], words)


TERM_GRACE_S = 1.0


def existing(namespaces: Iterable[str]) -> list[str]:
    """Those of these namespaces that exist."""
    return [name for name in namespaces if (_HOSTS[-1].namespaces / name).exists()]


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
