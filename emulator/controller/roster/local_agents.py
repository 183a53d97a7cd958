"""Agents of a local run: processes of this host that live no longer than the run."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from emulator.errors import HostError

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
        self._names, self._target, self._greeting = names, target, "\n".join([token, *addresses, ""])
        self._exec_prefixes = exec_prefixes or {}
        self._log_folder, self._on_exit = log_folder, on_exit
        self._processes: dict[str, asyncio.subprocess.Process] = {}
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

    async def _start(self, name: str) -> asyncio.subprocess.Process:
        # -P: a folder named agents where the user stands must not be taken for ours.
        agent = [sys.executable, "-P", "-m", "agents", "--controller", self._target, "--name", name]
        with (self._log_folder / f"{name}.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *self._exec_prefixes.get(name, ()), *agent, stdin=asyncio.subprocess.PIPE, stdout=log, stderr=log
            )
        assert process.stdin is not None
        process.stdin.write(self._greeting.encode())
        process.stdin.close()
        return process

    async def _watch(self, name: str) -> None:
        code = await self._processes[name].wait()
        self._on_exit(name, code, self._describe(name, code))

    def _describe(self, name: str, code: int) -> str:
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        lines = (self._log_folder / f"{name}.log").read_text(errors="replace").strip().splitlines()
        said = f": {lines[-1]}" if lines else ""
        return f"exited with code {code}{said}"


@contextlib.contextmanager
def _as_host_error(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        problem = f"{name} cannot be started ({error.strerror}): raise the limit (see ulimit -a) or use --agents 1"
        raise HostError(problem) from error
