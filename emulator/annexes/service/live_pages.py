"""Live pages of runs: each from the process that `charkha run --live` has too, at a socket that only the service knows.

The service hands requests on, so a page needs a token or session as everything does, and drawing it costs the service
nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import aiohttp
from aiohttp import web

from emulator.annexes.service.model import State
from emulator.annexes.service.service import Service
from emulator.experiment.play.live_report import end_server, start_server
from emulator.host.scratch import scratch_folder

_HANDED_ON = ("Content-Type", "X-Version", "X-Ended")


@dataclass(frozen=True, slots=True)
class _Server:
    process: subprocess.Popen[bytes]
    session: aiohttp.ClientSession


class LivePages:
    """The processes, each from the first look at a run to its end; an async context manager."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._servers: dict[int, _Server] = {}
        self._watchers: set[asyncio.Task[None]] = set()
        self._stack = contextlib.ExitStack()

    async def __aenter__(self) -> Self:
        self._folder = self._stack.enter_context(scratch_folder())
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        with self._stack:
            for task in self._watchers:
                task.cancel()
            for number in list(self._servers):
                self._servers[number].process.kill()
                await self._end(number)

    async def answer(self, number: int, *, path: str, query: str) -> web.Response:
        """What the live page of a run answers; a run that is over has a report in its place."""
        if self._service.store.run(number).state is not State.RUNNING and number not in self._servers:
            return web.Response(status=303, headers={"Location": f"/runs/{number}/report"})
        if number not in self._servers:
            self._start(number)
        try:
            async with self._servers[number].session.get(f"http://run/{path}?{query}") as found:
                headers = {name: found.headers[name] for name in _HANDED_ON if name in found.headers}
                return web.Response(status=found.status, body=await found.read(), headers=headers)
        except aiohttp.ClientError:  # it ended between two requests
            return web.Response(status=303, headers={"Location": f"/runs/{number}/report"})

    def _start(self, number: int) -> None:
        path = self._folder / str(number)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            process = start_server(self._service.place.run(number).results, listener, ())
        self._servers[number] = _Server(process, _session(path))
        task = asyncio.create_task(self._watch(number))
        self._watchers.add(task)
        task.add_done_callback(self._watchers.discard)

    async def _watch(self, number: int) -> None:
        with self._service.changes.noticed() as changed:
            while self._service.store.run(number).state is State.RUNNING:
                changed.clear()
                await changed.wait()
        await self._end(number)

    async def _end(self, number: int) -> None:
        server = self._servers[number]
        await asyncio.to_thread(end_server, server.process)
        await server.session.close()
        del self._servers[number]
        (self._folder / str(number)).unlink(missing_ok=True)


def _session(path: Path) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.UnixConnector(path=str(path)))
