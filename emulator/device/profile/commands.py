"""Runs the commands of events on this host: without a shell, in a session of their own, for a limited time."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys

from emulator.device.profile.profile import Command
from emulator.errors import HostError


def find_program(command: Command) -> str | None:
    """Where the program of a command is; None: nowhere."""
    return shutil.which(command.words[0])


def start(command: Command) -> subprocess.Popen[bytes]:
    """Start a command. What it writes goes to stderr, for stdout has the result of the run; it reads nothing.

    Raises:
        HostError: it cannot be started.
    """
    sys.stderr.flush()
    try:
        return subprocess.Popen(
            command.words,
            stdin=subprocess.DEVNULL,
            stdout=_stderr(),
            start_new_session=True,  # Ctrl-C ends the run, and not a change of a device half-way
        )
    except (OSError, ValueError) as error:
        raise HostError(f"{command} cannot be started: {getattr(error, 'strerror', None) or error}") from error


def wait(process: subprocess.Popen[bytes], limit_s: float) -> int:
    """Wait for a command, and kill it with all that it started in its session if it takes longer than the limit.

    Returns:
        Its exit code as a shell says it: 128 + number of the signal that ended it.
    """
    try:
        code = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
    return code if code >= 0 else 128 - code


def _stderr() -> int:
    try:
        return sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):  # there is none, or it is not a file
        return subprocess.DEVNULL
