"""The `charkha` command as a user runs it: a process of its own, with a deadline, that leaves nothing behind.

Every process of a run carries a mark of the test in its environment, which agents inherit: whoever still has it after
the run is a process that was left.
"""

import asyncio
import io
import json
import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from emulator.cli.main import main

T = TypeVar("T")
MARK = "CHARKHA_TEST_MARK"
ANNOUNCED = re.compile(r"^charkha: plays .*\n", re.MULTILINE)
PROGRESS = re.compile(r"^charkha: iteration \d+ of \d+, .* done, .*\n", re.MULTILINE)
COMMAND = (sys.executable, "-P", "-m", "emulator")
ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "lab" / "examples" / "transformer-8r"
LONGEST_S = 100.0
"""What takes longer hangs: no busy machine needs so long for anything that a test waits for."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that ended; what a run announced before it started, and its progress, are not in `stderr`."""

    code: int
    stdout: str
    stderr: str
    announced: Sequence[str] = ()

    @property
    def document(self) -> Any:
        """The JSON on stdout."""
        return json.loads(self.stdout)

    @property
    def error(self) -> str:
        """The one line on stderr."""
        lines = self.stderr.splitlines()
        assert len(lines) == 1, self.stderr
        assert lines[0].startswith("charkha: "), self.stderr
        return lines[0]


def charkha(*arguments: object, cwd: Path, timeout_s: float = LONGEST_S, prefix: Sequence[str] = ()) -> Finished:
    """Run a command to its end; no traceback may be on stderr, and no process of it be left.

    Args:
        prefix: what stands before the command, as `ip netns exec NAME`.
    """
    with started(*arguments, cwd=cwd, prefix=prefix) as command:
        return command.finish(timeout_s)


def succeed(*arguments: object, quiet: bool = False, **place: Any) -> Finished:
    """Run a command that ends well, as `charkha` does; with `quiet` there is nothing on stderr either."""
    finished = charkha(*arguments, **place)
    assert finished.code == 0, finished.stderr
    assert not (quiet and finished.stderr), finished.stderr
    return finished


def here(*arguments: object, cwd: Path | None = None) -> Finished:
    """Run a command that starts no process in this one: to import what it needs takes ten times as long as it does.

    Args:
        cwd: where it stands; None: where this process does.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.delattr(asyncio, "create_subprocess_exec")
        patch.setenv("COLUMNS", "120")
        patch.chdir(cwd or Path.cwd())
        code = main([*map(str, arguments)])
    return Finished(code, *(one.buffer.getvalue().decode() for one in (out, err)))


def answer(*arguments: object, cwd: Path) -> Finished:
    """Run a command that starts no process and ends well, as `here` does; nothing is on stderr."""
    finished = here(*arguments, cwd=cwd)
    assert (finished.code, finished.stderr) == (0, "")
    return finished


def refused(*arguments: object) -> str:
    """The one line of a command that ends with exit code 2 before it starts an agent; run as `here` does."""
    finished = here(*arguments)
    assert (finished.code, finished.stdout) == (2, ""), finished
    return finished.error


class Command:
    """A command that is running."""

    def __init__(self, process: subprocess.Popen[str], mark: str) -> None:
        self.process, self._mark = process, mark

    def finish(self, timeout_s: float = LONGEST_S) -> Finished:
        """Wait for its end; as `charkha` does."""
        stdout, stderr = self.process.communicate(timeout=timeout_s)
        assert "Traceback" not in stderr, stderr
        assert self.left() == []
        complaints = PROGRESS.sub("", ANNOUNCED.sub("", stderr))  # on a busy machine, any run may last 10 s
        return Finished(self.process.returncode, stdout, complaints, ANNOUNCED.findall(stderr))

    def agents(self, count: int | None = None) -> list[int]:
        """Process ids of its agents, by name, once so many are there; None: those that are there now."""
        if count is None:
            return self._agents()
        return wait_for(lambda: found if len(found := self._agents()) == count else None)

    def left(self) -> list[int]:
        """Processes of the run, the command itself aside, that are alive."""
        return [pid for pid in marked(self._mark) if pid != self.process.pid]

    def _agents(self) -> list[int]:
        lines = {pid: arguments_of(pid) for pid in self.left()}
        return sorted((pid for pid, line in lines.items() if b"--controller" in line), key=lambda pid: lines[pid])


@contextmanager
def started(*arguments: object, cwd: Path, prefix: Sequence[str] = ()) -> Iterator[Command]:
    """A running command; whatever is left of it in the end is killed.

    Args:
        arguments: after `charkha`.
        cwd: where it stands.
        prefix: what stands before the command and becomes it.
    """
    mark = secrets.token_hex(8)
    process = subprocess.Popen(
        [*prefix, *COMMAND, *map(str, arguments)],
        cwd=cwd,
        env=os.environ | {MARK: mark, "COLUMNS": "120"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        with process:
            try:
                yield Command(process, mark)
            finally:
                process.kill()
    finally:
        for pid in marked(mark):
            with suppress(ProcessLookupError):  # it is just ending
                os.kill(pid, 9)


def marked(mark: str) -> list[int]:
    """Living processes with this mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    return sorted(pid for pid in _processes() if wanted in _read(pid, "environ").split(b"\0"))


def wait_for(look: Callable[[], T | None], timeout_s: float = LONGEST_S) -> T:
    """The first thing `look` finds, looked for again and again."""
    deadline = time.monotonic() + timeout_s
    while (found := look()) is None:
        assert time.monotonic() < deadline, f"waited {timeout_s:g} s for nothing"
        time.sleep(0.01)
    return found


def stolen_s() -> float:
    """Time since the machine began in which its hypervisor gave its cores to others, s: see proc_stat(5)."""
    _, *ticks = Path("/proc/stat").read_text().splitlines()[0].split()
    return int(ticks[7]) / os.sysconf("SC_CLK_TCK")


def _processes() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())


def arguments_of(pid: int) -> list[bytes]:
    """The words of a process's command line; none if it has ended."""
    return _read(pid, "cmdline").split(b"\0")


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""  # it has ended, or is another user's
