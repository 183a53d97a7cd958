"""The service as a process: its folder, its socket, its end."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from aiohttp import web

from emulator.annexes.service.catalogue import Catalogue
from emulator.annexes.service.configuration import Configuration, ServiceFolder, address_of
from emulator.annexes.service.connections import BACKLOG, MOST_ACCEPTED, ConnectionLimits, GuardedRunner
from emulator.annexes.service.http import Routes, add_operations
from emulator.annexes.service.live_pages import LivePages
from emulator.annexes.service.model import Dut, Role
from emulator.annexes.service.otg.driving import add_otg
from emulator.annexes.service.pages import Pages
from emulator.annexes.service.queues import Changes, Queues
from emulator.annexes.service.service import Service
from emulator.annexes.service.store import Store
from emulator.errors import HostError, InputError
from emulator.experiment.play.live_report import listening
from emulator.host.files import MOST_SECRET_BYTES, read_bounded

FIRST_USER, FIRST_DUT = "admin", "loopback"
_SHUTDOWN_S = 2.0
"""Time for answers that are under way when the service ends."""


@contextlib.contextmanager
def opened(place: ServiceFolder) -> Iterator[Store]:
    """The state of a service, for one process at a time.

    Raises:
        HostError: the folder cannot be made or written.
        InputError: another process serves it.
    """
    _make(place)
    try:
        lock = os.open(place.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unusable(place, error) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.closing(Store(place.state)) as store:
            yield store
    except BlockingIOError:
        raise InputError(f"{place.folder}: another service has it; end that one, or ask it over HTTP") from None
    finally:
        os.close(lock)


def store_of(place: ServiceFolder) -> Store:
    """The state of a service, also of one that runs: SQLite lets two processes change it in turn.

    Raises:
        HostError: the folder cannot be made or written.
        InputError: it is no such state.
    """
    _make(place)
    return Store(place.state)


def _make(place: ServiceFolder) -> None:
    try:
        for folder in (place.folder, place.runs, place.uploads):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise _unusable(place, error) from error


def _unusable(place: ServiceFolder, error: OSError) -> HostError:
    return HostError(f"{place.folder}: cannot be used ({error.strerror}): choose another folder")


def prepare(store: Store) -> str | None:
    """Give a new service its first user and device; returns the user's token, None if there are users already."""
    if not store.duts():
        store.put_dut(Dut(name=FIRST_DUT, about="this machine: traffic over loopback tests the tester itself"))
    return None if store.users() else store.put_user(FIRST_USER, Role.ADMIN)


@contextlib.asynccontextmanager
async def serving(store: Store, place: ServiceFolder, configuration: Configuration) -> AsyncIterator[str]:
    """Serve, while the context is open; yields the URL.

    Raises:
        HostError: the address is not available.
        InputError: the identity cannot be used.
    """
    address, tls = address_of(configuration.listen), _tls(configuration)
    changes = Changes()
    with listening(address, what="the service", remedy="choose another with --listen") as listener:
        async with Queues(store, place, changes, quota_bytes=configuration.disk_quota_bytes) as queues:
            catalogue = Catalogue(configuration, rules=place.rules.absolute(), uploads=place.uploads.absolute())
            for unfinished in place.uploads.glob(".*"):  # of a service that was killed
                shutil.rmtree(unfinished, ignore_errors=True)
            service = Service(store, place, catalogue, queues, changes)
            async with LivePages(service) as live:
                routes = routes_of(service, live, is_secret=tls is not None)
                routes.limits = limits = ConnectionLimits()
                options = {"access_log": None, "shutdown_timeout": _SHUTDOWN_S}
                runner = GuardedRunner(routes.application, limits, **options)
                await runner.setup()
                try:
                    await web.SockSite(runner, listener, ssl_context=tls, backlog=MOST_ACCEPTED).start()
                    listener.listen(BACKLOG)  # asyncio would also accept as many at once
                    yield f"{'http' if tls is None else 'https'}://{address.host}:{listener.getsockname()[1]}/"
                finally:
                    await runner.cleanup()


def routes_of(service: Service, live: LivePages, *, is_secret: bool) -> Routes:
    """All routes. A room that adds routes of its own is named here."""
    routes = Routes(service, is_secret=is_secret)
    add_operations(routes)
    Pages(routes, live)
    add_otg(routes)
    return routes


async def serve(
    store: Store, place: ServiceFolder, configuration: Configuration, *, notify: Callable[[str], None]
) -> None:
    """Serve until SIGINT or SIGTERM; runs that are playing are interrupted then, those that wait stay.

    Raises:
        HostError, InputError: as `serving`.
    """
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with serving(store, place, configuration) as url:
        notify(f"serves {place.folder} at {url}")
        await ended.wait()
        notify("ends; runs that are playing are interrupted")


def _tls(configuration: Configuration) -> ssl.SSLContext | None:
    if configuration.identity is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        read_bounded(Path(configuration.identity), MOST_SECRET_BYTES)  # OpenSSL goes on without end
        context.load_cert_chain(Path(configuration.identity))
    except (OSError, ssl.SSLError) as error:
        raise InputError(
            f"{configuration.identity}: cannot be used for TLS ({error}): charkha agent certs issue"
        ) from error
    return context
