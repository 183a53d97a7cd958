"""Agents as processes of this machine; control goes through a Unix socket."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from emulator.annexes.launch.engine import UNIX, PlacedAgents, Placement
from emulator.annexes.launch.playing import last_words, own_child
from emulator.errors import HostError

STOP_S = 1.0
"""From SIGTERM to SIGKILL."""


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Starts agents as child processes, which the kernel kills if this process ends. Implements Engine."""

    placement: Placement

    def describe(self, command: Sequence[str]) -> str:
        """See Engine."""
        target = f"{UNIX}FOLDER/control.sock"
        agents = [self.placement.arguments(name, target, "") for name in self.placement.agents]
        lines = [shlex.join(["charkha", *words]) for words in [*agents, [*command, "--listen", target]]]
        return "\n".join([*(f"{line} &" for line in lines[:-1]), lines[-1]]) + "\n"

    @asynccontextmanager
    async def place(self, folder: Path) -> AsyncIterator[PlacedAgents]:
        """See Engine."""
        target = f"{UNIX}{folder}/control.sock"
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        processes: dict[str, asyncio.subprocess.Process] = {}
        watchers: list[asyncio.Task[None]] = []
        try:
            for name in self.placement.agents:
                processes[name] = await self._start(name, target, folder)
                watchers.append(asyncio.create_task(_watch(name, processes[name], folder, ended)))
            yield PlacedAgents(target, (), ended)
        finally:
            await _stop(list(processes.values()), watchers)

    async def _start(self, name: str, target: str, folder: Path) -> asyncio.subprocess.Process:
        words = own_child(*self.placement.arguments(name, target, ""))
        try:
            with _log(folder, name).open("wb") as log:
                return await asyncio.create_subprocess_exec(
                    *words, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
        except OSError as error:
            raise HostError(f"agent {name} cannot be started ({error.strerror}): `ulimit -a` shows limits") from error


def _log(folder: Path, name: str) -> Path:
    return folder / f"{name.replace('/', '_')}.log"


async def _watch(name: str, process: asyncio.subprocess.Process, folder: Path, ended: asyncio.Future[str]) -> None:
    code = await process.wait()
    if not ended.done():
        said = last_words(_log(folder, name).read_text(errors="replace"))
        ended.set_result(f"agent {name} ended with exit code {code}{said}")


async def _stop(processes: Sequence[asyncio.subprocess.Process], watchers: Sequence[asyncio.Task[None]]) -> None:
    running = [one for one in processes if one.returncode is None]
    for process in running:
        process.terminate()
    if watchers:
        await asyncio.wait(watchers, timeout=STOP_S)
    for process in running:
        if process.returncode is None:
            process.kill()
    await asyncio.gather(*watchers)
