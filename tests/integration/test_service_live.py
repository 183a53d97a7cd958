"""Live pages are handed on from a process of their own, and give way to the report."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from charkha.service import Role, State
from emulator.annexes.service import live_pages
from tests.integration.test_service_http import Asking
from tests.support.service import QUICK, add_users, in_this_process


class StandIn:
    """In place of the process: answers what it was asked."""

    def __init__(self) -> None:
        self.folders: list[Path] = []
        self.ended = 0
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, folder: Path, listener: socket.socket, names: Sequence[str]) -> StandIn:
        self.folders.append(folder)
        self._tasks.append(asyncio.create_task(self._serve(listener.dup())))
        return self

    def end(self, process: StandIn) -> None:
        self.ended += 1

    def kill(self) -> None:
        """The service ends."""

    async def _serve(self, listener: socket.socket) -> None:
        async def answer(request: web.Request) -> web.Response:
            return web.Response(text=f"asked {request.path_qs}", headers={"X-Version": "7", "X-Secret": "no"})

        application = web.Application()
        application.router.add_get("/{path:.*}", answer)
        runner = web.AppRunner(application)
        await runner.setup()
        await web.SockSite(runner, listener).start()
        try:
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def test_one_process_a_run_from_the_first_look_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = StandIn()
    monkeypatch.setattr(live_pages, "start_server", stand_in.start)
    monkeypatch.setattr(live_pages, "end_server", stand_in.end)
    (token,) = add_users(tmp_path, ann=Role.OPERATOR).values()
    async with in_this_process(tmp_path) as (routes, url), aiohttp.ClientSession() as session:
        ask, service = Asking(session, url, token), routes.service
        await ask("POST", "/api/v1/runs", json={"dut": "loopback", "spec": QUICK})
        report = (303, "/runs/1/report")
        status, _, headers = await ask("GET", "/runs/1/live/")
        assert (status, headers["Location"]) == report, "it waits"
        service.store.start_run(1)
        status, _, headers = await ask("GET", "/runs/1/live/")
        page = headers["Location"]
        assert (status, page.removesuffix("/").rpartition("/")[0]) == (303, "/runs/1/live")
        assert (await ask("GET", "/runs/1/live/other/"))[2]["Location"] == page
        status, text, headers = await ask("GET", page)
        assert (status, text, headers["Content-Security-Policy"]) == (200, "asked /", "sandbox allow-scripts")
        nobody = Asking(session, url, None)
        assert (await nobody("GET", page))[0] == 401
        status, text, headers = await nobody("GET", f"{page}state?after=0&reader=me")
        assert (status, text, headers["X-Version"]) == (200, "asked /state?after=0&reader=me", "7")
        assert (headers["Access-Control-Allow-Origin"], "X-Secret" in headers) == ("null", False)
        assert (await nobody("GET", "/runs/1/live/other/state"))[0] == 404
        assert stand_in.folders == [service.place.run(1).results]
        assert (await ask("GET", "/runs/1/live/../../etc"))[0] == 404
        service.store.end_run(1, State.COMPLETE)
        service.changes.announce()
        async with asyncio.timeout(60):
            while (await ask("GET", page))[0] != 303:
                pass
        status, _, headers = await ask("GET", "/runs/1/live/")
        assert (status, headers["Location"]) == report
        assert (await nobody("GET", f"{page}state"))[0] == 404
        assert stand_in.ended == 1
        await stand_in.close()
