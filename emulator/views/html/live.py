"""The page of a run while the run goes on, served by a process of its own.

`python -m emulator.views.html.live` is started by `charkha run --live` with a listening socket and a pipe as its stdin,
the end of which is the end of the run. It reads the run folder and nothing else, so the run pays for it only with the
processor time it takes: nothing while nobody reads, at most a fixed share of one core while somebody does.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from aiohttp import web

from emulator.views.html.page.document import Page, render
from emulator.views.html.snapshots import Snapshots

LOOK_S = 1.0
"""Between two looks at the folder, at least."""
SHARE = 0.03
"""Of one core that making pages may take on average."""
NICENESS = 19
HOLD_S = 10.0
"""A question for news is answered after this long, if there are none."""
FAREWELL_S = 5.0
"""After the end, for readers to take the last page."""
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}

logger = logging.getLogger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class LivePage:
    """The page as it is now and its number, and who waits for the next.

    Args:
        snapshots: of the run folder.
        names: what the host may be called in a request, without port; empty = anything.
    """

    def __init__(self, snapshots: Snapshots, *, names: frozenset[str] = frozenset()) -> None:
        self._snapshots, self._names = snapshots, names
        self._page: Page | None = None
        self._version, self._is_last = 0, False
        self._changed = asyncio.Condition()
        self._asked_at: dict[str, float] = {}

    def application(self) -> web.Application:
        """What answers: / with the whole page, /state?after=VERSION with a newer one once there is one."""
        application = web.Application(middlewares=[self._guard])
        application.add_routes([web.get("/", self._whole), web.get("/state", self._state)])
        return application

    async def follow(self) -> None:
        """Look at the folder again and again; pages are made only while somebody reads."""
        while True:
            began = time.process_time()
            try:
                if self._readers() and (page := self._snapshots.next()):
                    await self._publish(page)
            except Exception as error:  # the task's root: the run is not to suffer, nor the pages that may come
                logger.warning("the live page could not be made: %s: %s", type(error).__name__, error)
            await asyncio.sleep(max(LOOK_S, (time.process_time() - began) / SHARE))

    async def finish(self) -> None:
        """The run is over: show the last page, and wait until those who read have it."""
        readers = self._readers()
        await self._publish(self._snapshots.last(), is_last=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_S), self._changed:
                await self._changed.wait_for(lambda: not readers & self._asked_at.keys())

    def _readers(self) -> set[str]:
        """Who asked lately: a reader asks again as soon as it has drawn what it got."""
        return {reader for reader, asked_at in self._asked_at.items() if time.monotonic() - asked_at < 2 * HOLD_S}

    async def _publish(self, page: Page, *, is_last: bool = False) -> None:
        async with self._changed:
            self._page, self._is_last = page, is_last
            self._version += 1
            self._changed.notify_all()

    async def _whole(self, request: web.Request) -> web.Response:
        if self._page is None and (page := self._snapshots.next()):
            await self._publish(page)
        if self._page is None:
            raise web.HTTPServiceUnavailable(text="the run folder is just being written; load again")
        return web.Response(text=render(self._page, follows=True), content_type="text/html", headers=_HEADERS)

    async def _state(self, request: web.Request) -> web.Response:
        after, reader = _number(request.query.get("after", "0")), request.query.get("reader", "")[:64]
        self._asked_at[reader] = time.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HOLD_S), self._changed:
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
        """A page elsewhere must not read this one through a name that it points at this host."""
        name = request.host.rpartition(":")[0] if request.host.rpartition(":")[2].isdecimal() else request.host
        if self._names and name not in self._names:
            raise web.HTTPForbidden(text=f"this page is served as {', '.join(sorted(self._names))} only")
        return await handler(request)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 16 else 0


@contextlib.asynccontextmanager
async def serving(page: LivePage, listener: socket.socket) -> AsyncIterator[None]:
    """Answer requests on a listening socket."""
    runner = web.AppRunner(page.application(), access_log=None, shutdown_timeout=FAREWELL_S)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        yield
    finally:
        await runner.cleanup()


async def serve(folder: Path, listener: socket.socket, *, names: frozenset[str]) -> None:
    """Serve the page of a run until stdin ends, and its last page to those who read then."""
    page = LivePage(Snapshots(folder), names=names)
    async with serving(page, listener):
        following = asyncio.create_task(page.follow())
        try:
            await asyncio.to_thread(sys.stdin.buffer.read)
        finally:
            following.cancel()
        await page.finish()


def main() -> None:
    """Serve with what the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m emulator.views.html.live")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--listener", type=int, required=True, help="file descriptor of the listening socket")
    parser.add_argument("--name", action="append", default=[], help="what the host may be called in a request")
    args = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the run, and the run's end ends this
    os.nice(NICENESS)
    with socket.socket(fileno=args.listener) as listener:
        asyncio.run(serve(args.folder, listener, names=frozenset(args.name)))


if __name__ == "__main__":
    main()
