"""How long a logged-in user's page takes while connections that ask for nothing, or slowly, hold `charkha serve`.

    python -m lab.benchmarks.hostile_connections [--idle N] [--slow N] [--seconds S]

Idle connections send nothing; slow ones send a header byte by byte, one a second. Whatever the service ends is opened
again. The user loads the overview over a new connection each time, and over one that stays. Prints the longest times
and the length of the log; exit code 1 above 1 s or 100 kB.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path

from aiohttp import ClientError, ClientSession, ClientTimeout, CookieJar

from lab.benchmarks.started_service import started_service

MOST_S, MOST_LOG_BYTES = 1.0, 100_000
_PAUSE_S = 0.25
_OPENED_AT_ONCE = 64
_BEGINNING = b"POST /login HTTP/1.1\r\nHost: x\r\nX: "


class Crowd:
    """Connections that come back whenever the service ends them."""

    def __init__(self, port: int) -> None:
        self.ended = self.open = 0
        self._port, self._turns = port, asyncio.Semaphore(_OPENED_AT_ONCE)

    async def hold(self, *, is_slow: bool) -> None:
        """Keep one connection, for ever."""
        while True:
            with contextlib.suppress(OSError):
                async with self._turns:
                    reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                self.open += 1
                try:
                    await (_drip(writer) if is_slow else reader.read())
                finally:
                    self.open -= 1
                    self.ended += 1
                    writer.transport.abort()
            await asyncio.sleep(_PAUSE_S)


async def _drip(writer: asyncio.StreamWriter) -> None:
    writer.write(_BEGINNING)
    while True:
        await writer.drain()
        await asyncio.sleep(1)
        writer.write(b"a")


async def pages(url: str, token: str, seconds: float) -> tuple[list[float], list[float]]:
    """Times of a page over new connections, and over one that stays, s; infinite where it did not come."""
    jar = CookieJar(unsafe=True)
    fresh: list[float] = []
    kept: list[float] = []
    end_s = time.monotonic() + seconds
    async with ClientSession(cookie_jar=jar, timeout=ClientTimeout(10)) as staying:
        async with staying.post(f"{url}login", data={"token": token}) as answer:
            answer.raise_for_status()
        while time.monotonic() < end_s:
            async with ClientSession(cookie_jar=jar, timeout=ClientTimeout(10)) as once:
                fresh.append(await _page_s(once, url))
            kept.append(await _page_s(staying, url))
            await asyncio.sleep(_PAUSE_S)
    return fresh, kept


async def _page_s(session: ClientSession, url: str) -> float:
    begin_s = time.monotonic()
    try:
        async with session.get(url) as answer:
            is_page = answer.status == 200 and "/logout" in await answer.text()
    except (ClientError, TimeoutError):
        is_page = False
    return time.monotonic() - begin_s if is_page else float("inf")


async def hold(port: int, idle: int, slow: int, seconds: float) -> None:
    """Hold the service for a time."""
    crowd = Crowd(port)
    holding = [asyncio.create_task(crowd.hold(is_slow=number < slow)) for number in range(idle + slow)]
    await asyncio.sleep(seconds)
    print(f"{crowd.open} connections are open, {crowd.ended} were ended", flush=True)
    for task in holding:
        task.cancel()
    await asyncio.gather(*holding, return_exceptions=True)


def measure(args: argparse.Namespace, url: str, token: str) -> bool:
    """Load pages while a process of its own holds the service; whether all came in time."""
    port = int(url.rstrip("/").rpartition(":")[2])
    crowd = multiprocessing.Process(target=_run_crowd, args=(port, args.idle, args.slow, args.seconds))
    crowd.start()
    fresh, kept = asyncio.run(pages(url, token, args.seconds))
    crowd.join()
    for what, times in (("a new connection", fresh), ("one that stays", kept)):
        median = sorted(times)[len(times) // 2]
        print(f"page over {what}: {len(times)} times, median {median:.3f} s, longest {max(times):.3f} s")
    return max(*fresh, *kept) <= MOST_S


def _run_crowd(port: int, idle: int, slow: int, seconds: float) -> None:
    asyncio.run(hold(port, idle, slow, seconds))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--idle", type=int, default=2000)
    parser.add_argument("--slow", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    args = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="charkha-connections-") as folder:
        with started_service(Path(folder)) as service:
            is_well = measure(args, service.url, service.token)
        log_bytes = service.log.stat().st_size
    print(f"log: {log_bytes} bytes")
    return 0 if is_well and log_bytes <= MOST_LOG_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
