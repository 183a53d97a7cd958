"""A service as a process of its own, and one in this process whose queues are not worked on."""

import contextlib
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from charkha.service import Client, Role
from emulator.annexes.service.catalogue import Catalogue
from emulator.annexes.service.configuration import Configuration, ServiceFolder
from emulator.annexes.service.connections import ConnectionLimits, GuardedRunner
from emulator.annexes.service.http import Routes
from emulator.annexes.service.live_pages import LivePages
from emulator.annexes.service.queues import Changes, Queues
from emulator.annexes.service.service import Service
from emulator.annexes.service.serving import opened, prepare, routes_of
from tests.support.command import COMMAND

QUICK = (
    "{charkha: 1, jobs: [{sweep: {collective: all_reduce, ranks: 2, sizes: [1K]}, iterations: 2}], agents: {count: 1}}"
)
LONG = QUICK.replace("iterations: 2", "iterations: 1000000")


@dataclass(frozen=True, slots=True)
class Running:
    """A service and its address."""

    process: subprocess.Popen[str]
    url: str

    def client(self, token: str) -> Client:
        """A client with a token."""
        return Client(self.url, token)


@contextlib.contextmanager
def running(folder: Path, *, environment: dict[str, str] | None = None) -> Iterator[Running]:
    """A service; it is killed in the end."""
    command = [*COMMAND, "serve", str(folder), "--listen", "0"]
    with subprocess.Popen(
        command, text=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if found := re.search(r"serves .* at (\S+)$", line):
                    yield Running(process, found[1])
                    break
            else:
                raise AssertionError("the service ended")
        finally:
            process.kill()


def add_users(folder: Path, **roles: Role) -> dict[str, str]:
    """Make a service with these users; returns their tokens."""
    with opened(ServiceFolder(folder)) as store:
        prepare(store)
        return {name: store.put_user(name, role) for name, role in roles.items()}


@contextlib.asynccontextmanager
async def in_this_process(folder: Path, *, quota_bytes: int = 1 << 30) -> AsyncIterator[tuple[Routes, str]]:
    """The routes of a service and its URL; runs that are submitted wait for ever."""
    place, changes = ServiceFolder(folder), Changes()
    with opened(place) as store:
        queues = Queues(store, place, changes, quota_bytes=quota_bytes)
        catalogue = Catalogue(Configuration(), rules=folder / "rules", uploads=place.uploads)
        service = Service(store, place, catalogue, queues, changes)
        async with LivePages(service) as live:
            routes = routes_of(service, live, is_secret=False)
            runner = GuardedRunner(routes.application, ConnectionLimits(), access_log=None)
            await runner.setup()
            try:
                site = web.TCPSite(runner, "127.0.0.1", 0)
                await site.start()
                yield routes, f"http://127.0.0.1:{runner.addresses[0][1]}"
            finally:
                await runner.cleanup()
                await queues.__aexit__()
