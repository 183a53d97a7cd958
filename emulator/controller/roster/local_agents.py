"""Agents of a local run: processes of this host that live no longer than the run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from emulator.control.authentication import token_of_environment
from emulator.errors import HostError
from emulator.host.stderr_log import last_words

MOST_EARLY = 8
"""A run may turn out to have fewer ranks than this host has cores; the others load as soon as they are known of."""
TOLD_LATER = "-"
"""In place of what an agent dials: its target comes first on its stdin, then the file for its output."""
_early: dict[str, AgentProcess] = {}


class AgentProcess:
    """A running agent.

    Args:
        name: of the agent.
        target: what it dials; TOLD_LATER: `greet` tells it, and where its output goes.
        log: its stdout and stderr until then.
        prefix: a command that becomes the agent, put before it.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, name: str, *, target: str, log: int, prefix: Sequence[str] = ()) -> None:
        # -P: a folder named agents where the user stands must not be taken for ours.
        agent = [sys.executable, "-P", "-m", "agents", "--controller", target, "--name", name]
        self._process = subprocess.Popen([*prefix, *agent], stdin=subprocess.PIPE, stdout=log, stderr=log)

    @property
    def returncode(self) -> int | None:
        """Its exit code, or minus the number of the signal that ended it; None while it runs."""
        return self._process.returncode

    async def greet(self, lines: Sequence[str]) -> None:
        """Send it lines on its stdin, which ends then; it may be busy loading."""
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, self._process.stdin)
        transport.write("".join(f"{line}\n" for line in lines).encode())
        transport.close()

    async def wait(self) -> int:
        """Wait for its end; returns its exit code."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def watch() -> None:
            self._process.wait()
            loop.call_soon_threadsafe(ended.set)

        threading.Thread(target=watch, name=f"wait-{self._process.pid}", daemon=True).start()
        await ended.wait()
        return self._process.wait()

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()

    def dismiss(self) -> None:
        """End one that was not greeted."""
        self._process.kill()
        self._process.communicate()


def start_early(agents: int | None) -> None:
    """Start agents of a run that is not known yet; None: one per core. Whoever starts agents takes them."""
    token_of_environment()  # agents of this host do not inherit it
    for number in range(min(agents or len(os.sched_getaffinity(0)), MOST_EARLY)):
        name = f"agent-{number}"
        with contextlib.suppress(OSError):  # the same comes again when they are needed, as an error
            _early[name] = AgentProcess(name, target=TOLD_LATER, log=subprocess.DEVNULL)


def dismiss_early() -> None:
    """End those that nobody took."""
    while _early:
        _early.popitem()[1].dismiss()


async def start_agent(
    name: str, *, target: str, greeting: Sequence[str], log_file: Path, prefix: Sequence[str] = ()
) -> AgentProcess:
    """Start an agent, or take one that was started early.

    Args:
        greeting: its token, and the addresses that it plays at and sends to: on its stdin, where nobody can read them.
        log_file: receives its stdout and stderr.
        prefix: as for AgentProcess.

    Raises:
        OSError: it cannot be started.
    """
    with log_file.open("wb") as log:
        early = None if prefix else _early.pop(name, None)
        process = early or AgentProcess(name, target=target, log=log.fileno(), prefix=prefix)
    await process.greet(greeting if early is None else [target, str(log_file), *greeting])
    return process


TERM_GRACE_S = 0.7


class LocalAgents:
    """Async context manager: starts one process per name, kills whatever is left on leaving.

    Args:
        names: one agent each.
        target: what they dial.
        token: handed over on stdin, where nobody can read it.
        addresses: the only ones that they play at and send to.
        log_folder: their stderr goes to `<name>.log` there.
        on_exit: called with (name, exit code, reason) when one ends; below 0 the code is that of a signal.
        exec_prefixes: agent → a command that becomes the agent, put before it: `ip netns exec NAME`.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        target: str,
        token: str,
        addresses: Iterable[str],
        log_folder: Path,
        on_exit: Callable[[str, int, str], None],
        exec_prefixes: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._names, self._target, self._greeting = names, target, [token, *addresses]
        self._exec_prefixes = exec_prefixes or {}
        self._log_folder, self._on_exit = log_folder, on_exit
        self._processes: dict[str, AgentProcess] = {}
        self._watchers: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Start them.

        Raises:
            HostError: the host lacks what a process needs; none is left then.
        """
        try:
            for name in self._names:
                with _as_host_error(name):
                    self._processes[name] = await self._start(name)
                self._watchers.append(asyncio.create_task(self._watch(name)))
        except BaseException:
            await self.close()
            raise
        finally:
            dismiss_early()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait a moment for those who are leaving, then kill the rest; idempotent."""
        if self._watchers:
            await asyncio.wait(self._watchers, timeout=TERM_GRACE_S)
        for process in self._processes.values():
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
        await asyncio.gather(*self._watchers, return_exceptions=True)

    async def _start(self, name: str) -> AgentProcess:
        return await start_agent(
            name,
            target=self._target,
            greeting=self._greeting,
            log_file=self._log_folder / f"{name}.log",
            prefix=self._exec_prefixes.get(name, ()),
        )

    async def _watch(self, name: str) -> None:
        code = await self._processes[name].wait()
        self._on_exit(name, code, self._describe(name, code))

    def _describe(self, name: str, code: int) -> str:
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        said = last_words((self._log_folder / f"{name}.log").read_text(errors="replace"))
        return f"exited with code {code}{said}"


@contextlib.contextmanager
def _as_host_error(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        problem = f"{name} cannot be started ({error.strerror}): raise the limit (see ulimit -a) or use --agents 1"
        raise HostError(problem) from error
