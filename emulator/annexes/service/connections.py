"""Connections of the service: so many in all, so many of a peer, and each has a deadline for its next request."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from emulator.host.resources import raise_descriptors

REQUEST_S = 10.0
"""What a connection has to send a request, or the next one, s."""
RESERVED_DESCRIPTORS = 128
"""For the service itself: its state, its runs, its live pages."""
MOST_CONNECTIONS = 4096
BACKLOG = 4096
"""Connections that the kernel keeps for the service: what finds no room calls again after 1 s."""
MOST_ACCEPTED = 16
"""Connections at once, before others are ended for them: the reserve of descriptors must do for a few such turns."""
_QUIET_S = 60.0

logger = logging.getLogger(__name__)


class ConnectionLimits:
    """Counts connections, and ends those that wait: beyond a limit the one that has waited longest, for a new one.

    Connections whose request is being answered stay, so what is under way is not disturbed.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most or max(8, min(MOST_CONNECTIONS, raise_descriptors() - RESERVED_DESCRIPTORS))
        self.most_of_a_peer = self.most // 2
        self._guards: dict[object, _Guard] = {}
        """By transport; who began to wait first comes first."""
        self._of_peer: Counter[str] = Counter()
        self._ended, self._said_s = 0, -_QUIET_S

    def guarded(self, make: Callable[[], Any]) -> Callable[[], asyncio.Protocol]:
        """The same protocols, each with a guard."""
        return lambda: _Guard(self, make)

    def began(self, transport: object) -> None:
        """A request has arrived whole up to its body: who answers it may take any time."""
        if (guard := self._guards.get(transport)) is not None:
            guard.disarm()

    def ended(self, transport: object) -> None:
        """A request was answered: its connection begins to wait."""
        if (guard := self._guards.pop(transport, None)) is not None:
            self._guards[transport] = guard
            guard.arm()

    def came(self, guard: _Guard) -> None:
        """Make room for a connection."""
        self._guards[guard.transport] = guard
        self._of_peer[guard.peer] += 1
        is_crowd = self._of_peer[guard.peer] > self.most_of_a_peer
        if is_crowd or len(self._guards) > self.most:
            crowd = (one for one in self._guards.values() if one.peer == guard.peer or not is_crowd)
            self.end(next((one for one in crowd if one.is_waiting), guard), "there are too many connections")

    def left(self, guard: _Guard) -> None:
        """A connection is gone."""
        if self._guards.pop(guard.transport, None) is not None:
            self._of_peer[guard.peer] -= 1
            if not self._of_peer[guard.peer]:
                del self._of_peer[guard.peer]

    def end_all(self) -> None:
        """End what is open still."""
        for guard in list(self._guards.values()):
            guard.abort()

    def end(self, guard: _Guard, reason: str) -> None:
        """End a connection, and say so once a minute."""
        self.left(guard)
        guard.abort()
        self._ended += 1
        if time.monotonic() - self._said_s >= _QUIET_S:
            logger.warning("ended connections: %d, the last one of %s: %s", self._ended, guard.peer, reason)
            self._ended, self._said_s = 0, time.monotonic()


class _Guard(asyncio.Protocol):
    """Hands everything on to the protocol of a connection, and ends it if no request comes in time.

    The protocol is made when the first byte comes: a connection that says nothing costs little.
    """

    transport: asyncio.Transport

    def __init__(self, limits: ConnectionLimits, make: Callable[[], Any]) -> None:
        self._limits, self._make = limits, make
        self._handler: Any = None
        self.peer = ""
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether no request is being answered."""
        return self._deadline is not None

    def arm(self) -> None:
        """A request has to arrive from now on."""
        self.disarm()
        late = (self, f"no whole request in {REQUEST_S:.0f} s")
        # Those that came together do not go together, and come back together.
        delay_s = REQUEST_S * random.uniform(1, 1.5)
        self._deadline = asyncio.get_running_loop().call_later(delay_s, self._limits.end, *late)

    def disarm(self) -> None:
        """A request is being answered."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def abort(self) -> None:
        """End the connection."""
        self.disarm()
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.peer = str((transport.get_extra_info("peername") or ("",))[0])
        self.arm()
        self._limits.came(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.disarm()
        self._limits.left(self)
        if self._handler is not None:
            self._handler.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._handler is None:
            self._handler = self._make()
            self._handler.connection_made(self.transport)
        self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        return None if self._handler is None else self._handler.eof_received()

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()


class _Malformed(logging.Filter):
    """Drops what aiohttp logs, with a traceback each, of what is not HTTP; says how often that was, once a minute."""

    def __init__(self) -> None:
        super().__init__()
        self._count, self._said_s = 0, -_QUIET_S

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError):
            return True
        self._count += 1
        if time.monotonic() - self._said_s >= _QUIET_S:
            peer, problem = (*(record.args or ()), "")[0], " ".join(str(error).split())[:200]
            logger.warning("refused requests that are not HTTP: %d, the last one of %s: %s", self._count, peer, problem)
            self._count, self._said_s = 0, time.monotonic()
        return False


def _log_of_requests() -> logging.Logger:
    """A log for one server, which strangers cannot fill."""
    log = logging.Logger("aiohttp.server")
    log.parent = logging.root
    log.addFilter(_Malformed())
    return log


class GuardedRunner(web.AppRunner):
    """A runner whose connections are guarded; bodies stay as they come, as few bytes can unpack to many."""

    def __init__(self, application: web.Application, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(application, logger=_log_of_requests(), auto_decompress=False, **options)
        self._limits = limits

    @property
    def server(self) -> Any:
        """Makes the protocol of each connection."""
        made = super().server
        return None if made is None else self._limits.guarded(made)

    async def cleanup(self) -> None:
        """See web.AppRunner."""
        await super().cleanup()
        self._limits.end_all()
