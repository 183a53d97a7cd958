"""Runs the tools of this host: ip, tc, nft, ethtool and others, each as a batch.

A missing or failing tool becomes an error of one line that says what to do.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from emulator.errors import HostError

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
_OF_THE_KERNEL = "RTNETLINK answers: "


@dataclass(frozen=True, slots=True)
class CommandBatch:
    """A command, what it reads from stdin, and how long it may take; None: as long as it takes."""

    command: Sequence[str]
    lines: Sequence[str] = ()
    limit_s: float | None = None


def _finish(batch: CommandBatch) -> subprocess.CompletedProcess[str]:
    text = "".join(f"{line}\n" for line in batch.lines)
    return subprocess.run(batch.command, input=text, capture_output=True, text=True, timeout=batch.limit_s, check=False)


@dataclass(frozen=True, slots=True)
class CommandHost:
    """Where commands run.

    Attributes:
        finish: runs a batch, whatever comes of it; raises what `subprocess.run` raises.
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


def here() -> CommandHost:
    """Where commands run now."""
    return _HOSTS[-1]


def require_tools(tools: Iterable[str]) -> None:
    """Check that all tools are installed.

    Raises:
        HostError: a tool is missing; the error names its package.
    """
    missing = sorted({tool for tool in tools if here().which(tool) is None})
    if missing:
        raise _missing(missing)


def run(batch: CommandBatch, *, what: str = "the lab") -> str:
    """Run a batch and return its output.

    Args:
        batch: the command.
        what: it makes, for the error.

    Raises:
        HostError: the tool is missing or fails; the error has the line of the batch that failed.
    """
    done = finished(CommandBatch((*_NO_ORPHAN, *batch.command), batch.lines, batch.limit_s))
    if done.returncode:
        raise HostError(f"{what} cannot be created: {refusal(batch, done.stderr)}")
    return done.stdout


def attempt(batch: CommandBatch) -> str:
    """Run a batch, ignore errors, and return its output."""
    try:
        return finished(batch).stdout
    except HostError:
        return ""


def listed(batch: CommandBatch) -> list[Any]:
    """What a command lists as JSON; empty if it lists nothing or cannot be run."""
    try:
        return list(json.loads(attempt(batch).strip() or "[]"))
    except ValueError:
        return []


def finished(batch: CommandBatch) -> subprocess.CompletedProcess[str]:
    """Run a batch, whatever comes of it.

    Raises:
        HostError: the tool is missing, or takes longer than the batch may.
    """
    tool = batch.command[0]
    try:
        return here().finish(batch)
    except FileNotFoundError as error:
        raise _missing([tool]) from error
    except OSError as error:
        raise HostError(f"{tool} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise HostError(f"`{' '.join(batch.command)}` does not answer") from error


def refusal(batch: CommandBatch, stderr: str) -> str:
    """Which command of a batch failed, and why, from what it said."""
    failed = next((line for line in _lines(stderr) if line.startswith("Command failed")), "")
    number = failed.rpartition(":")[2]
    step = batch.lines[int(number) - 1] if number.isdecimal() and 0 < int(number) <= len(batch.lines) else ""
    return f"`{_shown(batch.command, step)}` failed ({reason(stderr)})"


def reason(stderr: str) -> str:
    """Why a command failed, in a line, from what it said."""
    said = (line for line in _lines(stderr) if not line.startswith("Command failed"))
    return next(said, "no reason given").removeprefix(_OF_THE_KERNEL)


def _lines(stderr: str) -> list[str]:
    return [line.strip() for line in stderr.splitlines() if line.strip()]


def _shown(command: Sequence[str], step: str) -> str:
    if not step:
        return " ".join(command)
    return " ".join([*(word for word in command if word not in ("-batch", "-force", "-")), step])


def _missing(tools: Sequence[str]) -> HostError:
    packages = sorted({PACKAGES.get(tool, tool) for tool in tools})
    return HostError(f"{', '.join(tools)} is missing on this host: apt-get install {' '.join(packages)}")
