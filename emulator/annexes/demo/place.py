"""Where the commands of a tour run: in namespaces of the tour's own if this host allows it, else as they are."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from emulator.device.lab.commands import require_root, require_tools
from emulator.errors import HostError

_TOOLS = ("unshare", "nsenter", "mount", "ip", "tc", "nft", "ethtool", "sysctl")
_BEGIN = "mount -t tmpfs tmpfs /run && ip link set lo up && echo ready && exec cat"
_PROBE = "ip netns add probe && ip netns exec probe nft list ruleset && ip netns del probe"
_PATIENCE_S = 20.0


@dataclass(slots=True)
class LabNamespaces:
    """Namespaces for a lab, which root makes: users' own do not do, as the kernel lets nobody tune ports from there.

    Their /run is empty, so a lab that is up on this host is neither seen nor touched. A context manager: the kernel
    removes all that was made in them when the first process there ends, which it does with this one, also if that is
    killed.
    """

    _stack: ExitStack
    _prefix: Sequence[str] = ()

    @classmethod
    def make(cls) -> Self:
        """The namespaces, once a lab can be brought up there.

        Raises:
            HostError: the user is not root, a tool is missing, or the kernel refuses; the error says which.
        """
        require_root()
        require_tools(_TOOLS)
        place = cls(ExitStack())
        try:
            place._enter()
        except BaseException:
            place.close()
            raise
        return place

    def _enter(self) -> None:
        unshare = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        holder = subprocess.Popen(
            [*unshare, "sh", "-c", _BEGIN],
            stdin=subprocess.PIPE,  # its end is the end of the namespaces
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the command that runs
        )
        self._stack.callback(_end, holder)
        assert holder.stdout is not None
        if holder.stdout.readline().strip() != "ready":
            raise HostError(f"a namespace cannot be made: {_last_line(holder.communicate()[1])}")
        (first,) = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
        self._prefix = ("nsenter", "--target", first, "--net", "--mount", "--pid", "--")
        try:
            probe = subprocess.run(self.words("sh", "-c", _PROBE), capture_output=True, text=True, timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired as error:
            raise HostError(f"a namespace does not answer: {' '.join(error.cmd)}") from error
        if probe.returncode:
            raise HostError(f"a namespace cannot be used: {_last_line(probe.stderr)}")

    def words(self, *command: str) -> list[str]:
        """A command as it runs there, in the root folder."""
        return [*self._prefix, *command]

    def close(self) -> None:
        """Remove the namespaces and end every process in them; does nothing the second time."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _end(holder: subprocess.Popen[str]) -> None:
    """End `cat`, and with it, the first process of its namespace, every other one there."""
    with suppress(OSError, ValueError), holder:
        if holder.stdin is not None:
            holder.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            holder.wait(_PATIENCE_S)
        holder.kill()


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it gives no reason"])[-1]
