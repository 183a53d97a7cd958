"""Connections that send half a request neither stop the service nor stay; requests under way are not disturbed."""

import asyncio
import contextlib
import gzip
import re
import signal
import socket
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientSession, web

from emulator.annexes.service import connections as rooms
from emulator.annexes.service.connections import ConnectionLimits, GuardedRunner
from tests.support.command import LONGEST_S, started

HALF = b"POST /quick HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nX: "


@contextlib.asynccontextmanager
async def serving(limits: ConnectionLimits, release: asyncio.Event) -> AsyncIterator[int]:
    """A server with a quick answer and one that waits; yields its port."""

    async def slow(request: web.Request) -> web.Response:
        limits.began(request.transport)
        await release.wait()
        limits.ended(request.transport)
        return web.Response(text="done")

    async def quick(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def length(request: web.Request) -> web.Response:
        return web.Response(text=str(len(await request.read())))

    application = web.Application()
    application.router.add_get("/slow", slow)
    application.router.add_get("/quick", quick)
    application.router.add_post("/length", length)
    runner = GuardedRunner(application, limits, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def test_half_requests_give_way_and_requests_under_way_stay(caplog: pytest.LogCaptureFixture) -> None:
    release = asyncio.Event()
    async with serving(ConnectionLimits(most=8), release) as port, ClientSession(f"http://127.0.0.1:{port}") as session:
        slow = asyncio.create_task(session.get("/slow"))
        readers = []
        for _ in range(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HALF)
            readers.append((reader, writer))
        async with ClientSession(f"http://127.0.0.1:{port}") as other, other.get("/quick") as answer:
            assert await answer.text() == "ok"
        for reader, _ in readers[:16]:  # of the 4 connections of a peer, one is the slow request's
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        release.set()
        async with await slow as answer:
            assert await answer.text() == "done"
        for _, writer in readers:
            writer.close()
    said = [one.message for one in caplog.records if one.name == rooms.__name__]
    assert len(said) == 1
    assert "too many connections" in said[0]


async def test_a_body_is_not_unpacked() -> None:
    packed = gzip.compress(bytes(1 << 20))
    async with serving(ConnectionLimits(most=8), asyncio.Event()) as port, ClientSession() as session:
        url, headers = f"http://127.0.0.1:{port}/length", {"Content-Encoding": "gzip"}
        async with session.post(url, data=packed, headers=headers) as answer:
            assert await answer.text() == str(len(packed))


async def test_what_is_not_http_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(ConnectionLimits(most=8), asyncio.Event()) as port:
        for _ in range(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: \x1b[31m\r\nHost: y\r\n\r\n")
            assert (await reader.readline()).split()[1] == b"400"
            writer.close()
    assert [one.name for one in caplog.records] == [rooms.__name__]
    assert "refused requests that are not HTTP: 1, the last one of 127.0.0.1" in caplog.text
    assert "\x1b" not in caplog.text
    assert "Traceback" not in caplog.text


async def test_a_half_request_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "REQUEST_S", 0.1)
    async with serving(ConnectionLimits(most=8), asyncio.Event()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HALF)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()


def test_a_crowd_that_comes_at_once_leaves_the_service_its_descriptors(tmp_path: Path) -> None:
    with started("serve", "service", "--listen", "0", cwd=tmp_path, prefix=["prlimit", "--nofile=256"]) as command:
        said = iter(command.process.stderr.readline, "")
        port = next(int(found[1]) for line in said if (found := re.search(r"serves .*:(\d+)/", line)))
        command.process.send_signal(signal.SIGSTOP)
        with contextlib.ExitStack() as stack:
            for _ in range(300):
                one = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                one.sendall(HALF)
            command.process.send_signal(signal.SIGCONT)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=LONGEST_S) as answer:
                assert answer.status == 200
        command.process.terminate()
        log = command.process.stderr.read()
    assert log.count("\n") == 2, log  # and that it ends
    assert "ended connections" in log
