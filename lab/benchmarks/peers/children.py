"""Programs run as children: with a deadline, and with nothing of them left when they end, however they end.

Every child has a session of its own and a mark in its environment that its descendants inherit, also those that move
to process groups of their own, as mpirun's ranks do.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MARK = "CHARKHA_PEERS_MARK"
GRACE_S = 2.0


class MeasurementFailed(Exception):
    """A program gave no figure: which, and what it said last."""


class Child:
    """A program that is running."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], output: Path, errors: Path) -> None:
        self.name, self._process, self._output, self._errors = name, process, output, errors

    def finish(self, timeout_s: float) -> str:
        """Wait for its end; what it wrote to stdout.

        Raises:
            MeasurementFailed: it took longer, or its exit code is not 0.
        """
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise MeasurementFailed(f"{self.name} did not end within {timeout_s:g} s") from error
        if code:
            raise MeasurementFailed(f"{self.name} ended with {code}: {self._last_words()}")
        return self._output.read_text(errors="replace")

    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def _last_words(self) -> str:
        for path in (self._errors, self._output):
            lines = path.read_text(errors="replace").strip().splitlines()
            if lines:
                return lines[-1][:200]
        return "it said nothing"


@contextmanager
def running(argv: Sequence[object], *, variables: Mapping[str, str] | None = None) -> Iterator[Child]:
    """Start a program; whatever is left of it in the end is killed.

    Raises:
        MeasurementFailed: it cannot be started.
    """
    words = [str(word) for word in argv]
    environment = {**os.environ, MARK: secrets.token_hex(8), **(variables or {})}
    with tempfile.TemporaryDirectory(prefix="charkha-peers-") as folder:
        output, errors = Path(folder) / "stdout", Path(folder) / "stderr"
        with output.open("wb") as out, errors.open("wb") as err:
            try:
                process = subprocess.Popen(
                    words, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                    start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                raise MeasurementFailed(f"{words[0]} cannot be started: {error.strerror}") from error
        try:
            yield Child(Path(words[0]).name, process, output, errors)
        finally:
            _end(process, environment[MARK])


def run(argv: Sequence[object], *, timeout_s: float, variables: Mapping[str, str] | None = None) -> str:
    """Run a program to its end; what it wrote to stdout.

    Raises:
        MeasurementFailed: it cannot be started, took too long or failed.
    """
    with running(argv, variables=variables) as child:
        return child.finish(timeout_s)


def run_python(module: str, *options: object, timeout_s: float) -> str:
    """Run a module with this interpreter; as `run`."""
    return run([sys.executable, "-m", module, *options], timeout_s=timeout_s)


def _end(process: subprocess.Popen[bytes], mark: str) -> None:
    if process.poll() is None:
        _signal_group(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    if process.poll() is None:
        _signal_group(process.pid, signal.SIGKILL)
        process.wait()
    for pid in marked(mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


def marked(mark: str) -> list[int]:
    """Living processes with this mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    return [pid for pid in _processes() if wanted in _environment(pid).split(b"\0")]


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it ended, or is another user's
        return b""


def free_port() -> int:
    """A TCP and UDP port of 127.0.0.1 that nobody uses just now.

    Raises:
        MeasurementFailed: none is found.
    """
    for _ in range(20):
        with (
            socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tcp,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        ):
            tcp.bind(("127.0.0.1", 0))
            port: int = tcp.getsockname()[1]
            with suppress(OSError):
                udp.bind(("127.0.0.1", port))
                return port
    raise MeasurementFailed("no free port on 127.0.0.1")
