"""Runs the commands of a recipe. A missing or failing tool becomes an error of one line that says what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence

from emulator.device.lab.recipe import CommandBatch
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
}
"""Tool → its Debian package."""
_NO_ORPHAN = ("setpriv", "--pdeathsig", "KILL", "--")
"""Prefix of a command: it is killed with this process, so that it cannot add to a lab that is being taken down."""


def require_root(what: str = "a lab") -> None:
    """Check that the user is root.

    Args:
        what: is to be made, for the error.

    Raises:
        HostError: the user is not root.
    """
    if os.geteuid() != 0:
        raise HostError(f"{what} needs network namespaces and therefore root: run the command with sudo")


def require_tools(tools: Iterable[str]) -> None:
    """Check that all tools are installed.

    Raises:
        HostError: a tool is missing; the error names its package.
    """
    missing = sorted({tool for tool in tools if shutil.which(tool) is None})
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
    text = "".join(f"{line}\n" for line in batch.lines)
    return subprocess.run(batch.command, input=text, capture_output=True, text=True, check=False)


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
