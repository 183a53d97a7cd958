"""The server of the live page: versions, waiting browsers, the last page, foreign host names."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from emulator.annexes.telemetry.live_page import LivePage, Snapshots, serving
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from tests.support.runs import collective, columns, manifest, ranks

LOCALHOST = frozenset({"127.0.0.1", "localhost"})
live_page = partial(LivePage, look_s=0.02, share=1.0, hold_s=0.2, farewell_s=0.5)
"""Nobody waits for long."""


class Server:
    """A live page with a client."""

    def __init__(self, page: LivePage, session: aiohttp.ClientSession, url: str) -> None:
        self.page, self._session, self._url = page, session, url

    async def get(self, path: str, **headers: str) -> tuple[int, str, dict[str, str]]:
        async with self._session.get(f"{self._url}{path}", headers=headers) as answer:
            return answer.status, await answer.text(), dict(answer.headers)


@contextlib.asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Server]:
    page = live_page(Snapshots(folder), names=LOCALHOST)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with serving(page, listener), aiohttp.ClientSession() as session:
            yield Server(page, session, url)


def record(writer: RunWriter, iteration: int) -> None:
    writer.add(RunTable.SAMPLES, columns(collective([0, 0], [10, 10], iteration=iteration)))
    writer.add_iteration(iteration, ranks((0, 10), (0, 10)))
    writer.flush()


async def test_the_whole_page_is_there_before_the_run(tmp_path: Path) -> None:
    async with served(tmp_path / "run") as server:
        status, text, headers = await server.get("/")
    assert status == 200
    assert "The run has not started; agents are starting." in text
    assert "data-follows" in text
    assert headers["Cache-Control"] == "no-store"


async def test_a_browser_that_waits_gets_the_next_version(tmp_path: Path) -> None:
    async with served(tmp_path / "run") as server:
        await server.get("/")
        following = asyncio.create_task(server.page.follow())
        with RunWriter(tmp_path / "run", manifest()) as writer:
            record(writer, 0)
            for _ in range(50):
                status, text, headers = await server.get("/state?after=1&reader=r1")
                if status == 200:
                    break
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
    assert status == 200
    assert int(headers["X-Version"]) > 1
    assert "X-Ended" not in headers
    assert 'id="library"' not in text  # the browser has it already


async def test_without_news_the_answer_is_empty(tmp_path: Path) -> None:
    async with served(tmp_path / "run") as server:
        await server.get("/")
        assert (await server.get("/state?after=1&reader=r1"))[:2] == (204, "")
        assert (await server.get("/state?after=x"))[0] == 200  # anything else counts as version 0
        assert (await server.get("/state?after=99999999999999999999"))[0] == 200


async def test_the_last_page_reaches_open_browsers_and_says_that_it_is_the_last(tmp_path: Path) -> None:
    async with served(tmp_path / "run") as server:
        await server.get("/")
        with RunWriter(tmp_path / "run", manifest()) as writer:
            record(writer, 0)
        waiting = asyncio.create_task(server.get("/state?after=1&reader=r1"))
        await asyncio.sleep(0.05)
        await server.page.finish()
        status, text, headers = await waiting
    assert (status, headers["X-Ended"]) == (200, "yes")
    assert "data-follows" not in text
    assert "complete" in text


async def test_the_server_does_not_wait_for_ever_for_a_closed_browser(tmp_path: Path) -> None:
    async with served(tmp_path / "run") as server:
        await server.get("/")
        await server.get("/state?after=1&reader=gone")
        async with asyncio.timeout(60):
            await server.page.finish()


async def test_nothing_is_rendered_while_nobody_has_the_page_open(tmp_path: Path) -> None:
    class Counting(Snapshots):
        count = 0

        def next(self):  # type: ignore[no-untyped-def]
            self.count += 1
            return super().next()

    snapshots = Counting(tmp_path / "run")
    following = asyncio.create_task(live_page(snapshots).follow())
    await asyncio.sleep(0.1)
    following.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await following
    assert snapshots.count == 0


async def test_a_page_that_cannot_be_rendered_does_not_stop_the_next_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Snapshots):
        is_broken = True

        def next(self):  # type: ignore[no-untyped-def]
            if self.is_broken:
                self.is_broken = False
                raise ValueError("broken table")
            return super().next()

    page = live_page(Failing(tmp_path / "run"), names=LOCALHOST)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with serving(page, listener), aiohttp.ClientSession() as session:
            server = Server(page, session, url)
            following = asyncio.create_task(page.follow())
            for _ in range(50):
                status, text, _ = await server.get("/state?after=0&reader=r1")
                if status == 200:
                    break
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following
    assert "The run has not started" in text
    assert "cannot render the live page: ValueError: broken table" in caplog.text


async def test_another_host_name_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path / "run") as server:
        status, text, _ = await server.get("/", Host="attacker.example:80")
        assert (status, text) == (403, "this page is available only at 127.0.0.1, localhost")
        assert (await server.get("/", Host="localhost"))[0] == 200
        assert (await server.get("/elsewhere"))[0] == 404
