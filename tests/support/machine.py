"""A machine of a test's own: network, mounts under /run and processes that nothing else on the host sees.

What a lab leaves behind can so be compared exactly, whatever other tests raise meanwhile. Needs root.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.command import COMMAND, LONGEST_S, Command, Finished, charkha, started, succeed

_FIRST = "mount -t tmpfs none /run && ip link set lo up && echo ready && { sleep infinity & wait; }"
"""The shell stays, and takes leave of orphans as the first process of a machine does."""


class Machine:
    """Where a test runs commands."""

    def __init__(self, pid: int, folder: Path) -> None:
        self.folder = folder
        entered = ("nsenter", "--target", str(pid), "--net", "--mount", "--pid", "--")
        self.prefix = (*entered, "env", "-C", str(folder))
        """What runs a command on it, before the command."""

    def charkha(self, *arguments: object, timeout_s: float = LONGEST_S) -> Finished:
        """Run the command under test to its end."""
        return charkha(*arguments, cwd=self.folder, prefix=self.prefix, timeout_s=timeout_s)

    def succeed(self, *arguments: object, timeout_s: float = LONGEST_S) -> Finished:
        """Run the command under test, which ends well."""
        return succeed(*arguments, cwd=self.folder, prefix=self.prefix, timeout_s=timeout_s)

    def raise_lab(self, topology: Path, *options: object) -> str:
        """Not as other commands are run: the daemons of a switch outlive it on purpose."""
        return self.run(*COMMAND, "lab", "up", topology, *options)

    @contextmanager
    def started(self, *arguments: object) -> Iterator[Command]:
        """Start the command under test."""
        with started(*arguments, cwd=self.folder, prefix=self.prefix) as command:
            yield command

    def kill(self, command: Command) -> None:
        """Kill the command itself, not only what brought it here, and wait until it is gone."""
        with contextlib.suppress(ProcessLookupError):  # it was faster
            os.kill(_child(command.process.pid), signal.SIGKILL)
        command.process.wait()

    def run(self, *command: object) -> str:
        """Run any command to its end; what it printed."""
        words = [*self.prefix, *map(str, command)]
        return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout

    def namespaces(self) -> list[str]:
        """Names of its network namespaces."""
        return sorted(line.split()[0] for line in self.run("ip", "netns", "list").splitlines())

    def processes(self) -> list[str]:
        """Names of all processes but those that look."""
        return sorted(set(self.run("ps", "-e", "-o", "comm=").split()) - {"ps"})

    def traces(self) -> dict[str, object]:
        """All that a lab could leave behind."""
        return {
            "namespaces": self.namespaces(),
            "links": self.run("ip", "-o", "link"),
            "rules": self.run("nft", "list", "ruleset"),
            "queues": self.run("tc", "qdisc", "show"),
            "processes": self.processes(),
            "files": self.run("find", "/run", "-not", "-path", "/run/netns"),
        }


@contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    """A machine for the length of a test; everything on it ends with it."""
    own = ("--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
    with subprocess.Popen(["unshare", *own, "sh", "-c", _FIRST], stdout=subprocess.PIPE, text=True) as outer:
        try:
            assert outer.stdout.readline() == "ready\n"
            yield Machine(_child(outer.pid), folder)
        finally:
            outer.kill()


def _child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
