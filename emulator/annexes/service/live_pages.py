"""Live pages of runs: each from the process that `charkha run --live` has too, at a socket that only the service knows.

The service hands requests on, so a page needs a token or session as everything does, and drawing it costs the service
nothing. It is shown in a sandbox, from which browsers send no session: what renews it needs the key in its address.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import aiohttp
from aiohttp import web

from emulator.annexes.service.http import is_same
from emulator.annexes.service.model import Refusal, State
from emulator.annexes.service.service import Service
from emulator.experiment.play.live_report import end_server, start_server
from emulator.host.files import scratch_folder

_HANDED_ON = ("Content-Type", "X-Version", "X-Ended")
_TO_SANDBOX = {"Access-Control-Allow-Origin": "null", "Access-Control-Expose-Headers": "X-Version, X-Ended"}


@dataclass(frozen=True, slots=True)
class _Server:
    process: subprocess.Popen[bytes]
    session: aiohttp.ClientSession
    key: str  # of its address


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

    async def page(self, number: int, key: str) -> web.Response:
        """The live page of a run; without its key the way there, and to the report of one that is over."""
        if self._service.store.run(number).state is not State.RUNNING and number not in self._servers:
            return web.Response(status=303, headers={"Location": f"/runs/{number}/report"})
        if number not in self._servers:
            self._start(number)
        server = self._servers[number]
        if key != server.key:
            return web.Response(status=303, headers={"Location": f"/runs/{number}/live/{server.key}/"})
        try:
            return await _handed_on(server, "")
        except aiohttp.ClientError:  # it ended between two requests
            return web.Response(status=303, headers={"Location": f"/runs/{number}/report"})

    async def state(self, number: int, key: str, query: str) -> web.Response:
        """What renews the live page.

        Raises:
            Refusal: the key is wrong, or the run is over.
        """
        server = self._servers.get(number)
        if server is None or not is_same(key, server.key):
            raise Refusal("there is no such live page", status=404)
        try:
            answer = await _handed_on(server, f"state?{query}")
        except aiohttp.ClientError:
            raise Refusal("the run is over", status=404) from None
        answer.headers.update(_TO_SANDBOX)
        return answer

    def _start(self, number: int) -> None:
        path = self._folder / str(number)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            process = start_server(self._service.place.run(number).results, listener, ())
        self._servers[number] = _Server(process, _session(path), secrets.token_urlsafe())
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


async def _handed_on(server: _Server, path: str) -> web.Response:
    async with server.session.get(f"http://run/{path}") as found:
        headers = {name: found.headers[name] for name in _HANDED_ON if name in found.headers}
        return web.Response(status=found.status, body=await found.read(), headers=headers)


def _session(path: Path) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.UnixConnector(path=str(path)))
