"""Serves the report of a run while it is played, from a process of its own.

`charkha run --live` starts `python -m emulator.annexes.telemetry.live_page` with a listening socket and a pipe as
stdin; the pipe is closed when the run ends. The process only reads the run folder. It costs the run nothing but
processor time: none while nobody has the page open, and at most a fixed share of one core otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from aiohttp import web

from emulator.errors import EmulatorError
from emulator.results.run_folder.manifest import PARTIAL_MANIFEST, RUNNING
from emulator.results.run_folder.reader import Run, read_run
from emulator.views.html.facts import read_facts
from emulator.views.html.page.document import Page, PageSection, Text, render
from emulator.views.html.run_page import run_page

LOOK_S = 1.0
"""Shortest time between two reads of the folder, seconds."""
SHARE = 0.03
"""Most of one core that rendering may take on average."""
NICENESS = 19
HOLD_S = 10.0
"""A request for a newer page is answered after this time even if there is none, seconds."""
FAREWELL_S = 5.0
"""Time for browsers to fetch the last page after the end, seconds."""
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}

logger = logging.getLogger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class LivePage:
    """The current page with its version, and the browsers that wait for the next one.

    Args:
        names: names of the host, without port, that requests may use; empty = any.
        look_s, share, hold_s, farewell_s: see LOOK_S, SHARE, HOLD_S, FAREWELL_S.
    """

    def __init__(
        self,
        snapshots: Snapshots,
        *,
        names: frozenset[str] = frozenset(),
        look_s: float = LOOK_S,
        share: float = SHARE,
        hold_s: float = HOLD_S,
        farewell_s: float = FAREWELL_S,
    ) -> None:
        self._snapshots, self._names = snapshots, names
        self._look_s, self._share, self._hold_s, self.farewell_s = look_s, share, hold_s, farewell_s
        self._page: Page | None = None
        self._version, self._is_last = 0, False
        self._changed = asyncio.Condition()
        self._asked_at: dict[str, float] = {}

    def application(self) -> web.Application:
        """The web application: / is the whole page, /state?after=VERSION a newer one as soon as there is one."""
        application = web.Application(middlewares=[self._guard])
        application.add_routes([web.get("/", self._whole), web.get("/state", self._state)])
        return application

    async def follow(self) -> None:
        """Render new pages while at least one browser has the page open."""
        while True:
            began = time.process_time()
            try:
                if self._readers() and (page := self._snapshots.next()):
                    await self._publish(page)
            except Exception as error:  # root of the task: neither the run nor later pages may suffer
                logger.warning("cannot render the live page: %s: %s", type(error).__name__, error)
            await asyncio.sleep(max(self._look_s, (time.process_time() - began) / self._share))

    async def finish(self) -> None:
        """Publish the last page and wait until open browsers have fetched it."""
        readers = self._readers()
        await self._publish(self._snapshots.last(), is_last=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.farewell_s), self._changed:
                await self._changed.wait_for(lambda: not readers & self._asked_at.keys())

    def _readers(self) -> set[str]:
        """Browsers that sent a request lately: they ask again as soon as they have drawn the page."""
        return {reader for reader, asked_at in self._asked_at.items() if time.monotonic() - asked_at < 2 * self._hold_s}

    async def _publish(self, page: Page, *, is_last: bool = False) -> None:
        async with self._changed:
            self._page, self._is_last = page, is_last
            self._version += 1
            self._changed.notify_all()

    async def _whole(self, request: web.Request) -> web.Response:
        if self._page is None and (page := self._snapshots.next()):
            await self._publish(page)
        if self._page is None:
            raise web.HTTPServiceUnavailable(text="the run folder is being written; reload the page")
        return web.Response(text=render(self._page, follows=True), content_type="text/html", headers=_HEADERS)

    async def _state(self, request: web.Request) -> web.Response:
        after, reader = _number(request.query.get("after", "0")), request.query.get("reader", "")[:64]
        self._asked_at[reader] = time.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._hold_s), self._changed:
                await self._changed.wait_for(lambda: self._version > after)
        if self._version <= after or self._page is None:
            return web.Response(status=204, headers=_HEADERS)
        headers = {**_HEADERS, "X-Version": str(self._version)}
        if self._is_last:
            headers["X-Ended"] = "yes"
            await self._forget(reader)
        html = render(self._page, with_library=False, follows=not self._is_last)
        return web.Response(text=html, content_type="text/html", headers=headers)

    async def _forget(self, reader: str) -> None:
        async with self._changed:
            self._asked_at.pop(reader, None)
            self._changed.notify_all()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse other host names: no foreign page may read this one through DNS rebinding."""
        name = request.host.rpartition(":")[0] if request.host.rpartition(":")[2].isdecimal() else request.host
        if self._names and name not in self._names:
            raise web.HTTPForbidden(text=f"this page is available only at {', '.join(sorted(self._names))}")
        return await handler(request)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 16 else 0


@contextlib.asynccontextmanager
async def serving(page: LivePage, listener: socket.socket) -> AsyncIterator[None]:
    """Answer requests on a listening socket."""
    runner = web.AppRunner(page.application(), access_log=None, shutdown_timeout=page.farewell_s)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        yield
    finally:
        await runner.cleanup()


async def serve(folder: Path, listener: socket.socket, *, names: frozenset[str]) -> None:
    """Serve the page of a run until stdin is closed, then its last page to open browsers."""
    page = LivePage(Snapshots(folder), names=names)
    async with serving(page, listener):
        following = asyncio.create_task(page.follow())
        try:
            await asyncio.to_thread(sys.stdin.buffer.read)
        finally:
            following.cancel()
        await page.finish()


def main(folder: str, listener: str, *names: str) -> None:
    """Serve the page of a run folder until stdin is closed.

    Args:
        listener: file descriptor of the listening socket.
        names: names of the host that requests may use; none = any.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the run, and the end of the run ends this process
    os.nice(NICENESS)
    with socket.socket(fileno=int(listener)) as socket_:
        asyncio.run(serve(Path(folder), socket_, names=frozenset(names)))


_WAITING = "The run has not started; agents are starting."
_NOTHING = "The run ended before anything was recorded. See the reason in the terminal where it was started."


class Snapshots:
    """Pages of one run folder.

    Args:
        folder: of the run; it may not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: object = None

    def next(self) -> Page | None:
        """The current page; None if nothing has changed since the last one, or the folder is being closed."""
        state = self._state()
        if state == self._seen:
            return None
        page = self._page()
        if page is not None:
            self._seen = state
        return page

    def last(self) -> Page:
        """The page of a run that is over."""
        try:
            return run_page(read_facts(read_run(self._folder)))
        except EmulatorError as error:
            exists = self._folder.exists()
            return _notice(self._folder, f"{_NOTHING} ({error})" if exists else _NOTHING, is_live=False)

    def _page(self) -> Page | None:
        if not self._folder.exists():
            return _notice(self._folder, _WAITING, is_live=True)
        try:
            return run_page(read_facts(_as_running(read_run(self._folder))))
        except EmulatorError:
            return None  # files are being renamed or not complete yet: the next attempt will find them

    def _state(self) -> object:
        try:
            return sorted((one.name, one.stat().st_size) for one in self._folder.iterdir())
        except OSError:
            return ()


def _as_running(run: Run) -> Run:
    """A folder that is not closed reads as aborted; here it is known that the run is still going."""
    if run.closed or not (run.folder / PARTIAL_MANIFEST).exists():
        return run
    return replace(run, manifest=replace(run.manifest, status=RUNNING, reason=None))


def _notice(folder: Path, text: str, *, is_live: bool) -> Page:
    section = PageSection("summary", "", [Text("notice", text, "note")])
    return Page(f"{folder.name} · charkha", folder.name, "", [], [], [section], is_live=is_live)


if __name__ == "__main__":
    main(*sys.argv[1:])
