"""Play a tour: print each command, run it in a shell, go on if it ended as the tour says.

Commands run in namespaces of the tour's own if this host allows it, else as they are.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from emulator.annexes.demo.tours import Tour, TourStep
from emulator.device.lab.commands import require_root
from emulator.errors import HostError, RunError
from emulator.host.tools import require_tools

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


_END_S = 15.0
"""A command that was interrupted has this long to end by itself."""


@dataclass(frozen=True, slots=True)
class Played:
    """A command that was played.

    Attributes:
        step: the command.
        code: its exit code.
        seconds: from start to end.
        output: what it wrote to stdout; "" if it was not recorded.
    """

    step: TourStep
    code: int
    seconds: float
    output: str = ""


class StepFailed(RunError):
    """A command of a tour ended otherwise than it should."""

    def __init__(self, played: Played) -> None:
        self.played = played
        super().__init__(played)

    def _message(self) -> str:
        first = self.played.step.command.splitlines()[0]
        expected = " or ".join(map(str, self.played.step.codes))
        return f"`{first}` ended with exit code {self.played.code}, not {expected}: the tour stops here"


def play(
    tour: Tour,
    folder: Path,
    *,
    place: LabNamespaces | None = None,
    on_step: Callable[[TourStep], None] = lambda step: None,
    record: bool = False,
) -> Iterator[Played]:
    """Play the commands of a tour in a folder, one by one.

    Args:
        tour: what to play.
        folder: where, exists.
        place: namespaces for its lab; None: this host as it is.
        on_step: called before each command runs.
        record: keep stdout instead of showing it; stderr is dropped.

    Raises:
        StepFailed: a command has another exit code than the tour allows. It has been yielded before.
    """
    for step in tour.steps:
        on_step(step)
        began = time.monotonic()
        code, output = _run(_words(step, folder, place), record=record)
        played = Played(step, code, time.monotonic() - began, output)
        yield played
        if code not in step.codes:
            raise StepFailed(played)


def _words(step: TourStep, folder: Path, place: LabNamespaces | None) -> Sequence[str]:
    # `charkha` is this Charkha, also where it is not installed. A function leaves no file behind a demo that is killed.
    charkha = f'charkha() {{ {shlex.quote(sys.executable)} -P -m emulator "$@"; }}'
    shell = ["sh", "-c", f'{charkha}; cd "$0" && eval "$1"', str(folder), step.command]
    return place.words(*shell) if place is not None else shell


def _run(words: Sequence[str], *, record: bool) -> tuple[int, str]:
    paths = [str(Path(__file__).resolve().parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.Popen(
        words,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if record else None,
        stderr=subprocess.DEVNULL if record else None,
        text=True,
    )
    try:
        output, _ = process.communicate()
    except KeyboardInterrupt:  # the command has got it as well
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        process.kill()
        raise
    return process.returncode, output or ""
