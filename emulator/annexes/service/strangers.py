"""Connections of the service: so many in all, so many of a peer, and each has a deadline for its next request."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from aiohttp import web

from emulator.host.resources import raise_descriptors

REQUEST_S = 10.0
"""What a connection has to send a request, or the next one, s."""
RESERVED_DESCRIPTORS = 128
"""For the service itself: its state, its runs, its live pages."""
MOST_CONNECTIONS = 1024
_QUIET_S = 60.0

logger = logging.getLogger(__name__)


class Strangers:
    """Counts connections, and ends those that wait: beyond a limit the one that has waited longest, for a new one.

    Connections whose request is being answered stay, so what is under way is not disturbed.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most or max(8, min(MOST_CONNECTIONS, raise_descriptors() - RESERVED_DESCRIPTORS))
        self.most_of_a_peer = self.most // 2
        self._guards: dict[Any, _Guard] = {}
        self._ended, self._said_s = 0, -_QUIET_S

    def guarded(self, make: Callable[[], Any]) -> Callable[[], asyncio.Protocol]:
        """The same protocols, each with a guard."""
        return lambda: _Guard(self, make())

    def began(self, handler: object) -> None:
        """A request has arrived whole up to its body: who answers it may take any time."""
        if (guard := self._guards.get(handler)) is not None:
            guard.disarm()

    def ended(self, handler: object) -> None:
        """A request was answered."""
        if (guard := self._guards.get(handler)) is not None:
            guard.arm()

    def came(self, guard: _Guard) -> None:
        """Make room for a connection."""
        of_peer = [one for one in self._guards.values() if one.peer == guard.peer]
        crowd = of_peer if len(of_peer) >= self.most_of_a_peer else list(self._guards.values())
        self._guards[guard.handler] = guard
        if len(crowd) >= (self.most_of_a_peer if crowd is of_peer else self.most):
            waiting = [one for one in crowd if one.is_waiting]
            self.end(waiting[0] if waiting else guard, "there are too many connections")

    def left(self, guard: _Guard) -> None:
        """A connection is gone."""
        self._guards.pop(guard.handler, None)

    def end(self, guard: _Guard, reason: str) -> None:
        """End a connection, and say so once a minute."""
        self.left(guard)
        guard.abort()
        self._ended += 1
        if time.monotonic() - self._said_s >= _QUIET_S:
            logger.warning("ended connections: %d, the last one of %s: %s", self._ended, guard.peer, reason)
            self._ended, self._said_s = 0, time.monotonic()


class _Guard(asyncio.Protocol):
    """Hands everything on to the protocol of a connection, and ends it if no request comes in time."""

    def __init__(self, strangers: Strangers, handler: Any) -> None:
        self.handler, self._strangers = handler, strangers
        self.peer = ""
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether no request is being answered."""
        return self._deadline is not None

    def arm(self) -> None:
        """A request has to arrive from now on."""
        self.disarm()
        late = (self, f"no whole request in {REQUEST_S:.0f} s")
        self._deadline = asyncio.get_running_loop().call_later(REQUEST_S, self._strangers.end, *late)

    def disarm(self) -> None:
        """A request is being answered."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def abort(self) -> None:
        """End the connection."""
        self.disarm()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.peer = str((transport.get_extra_info("peername") or ("",))[0])
        self.handler.connection_made(transport)
        self.arm()
        self._strangers.came(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.disarm()
        self._strangers.left(self)
        self.handler.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.handler.data_received(data)

    def eof_received(self) -> bool | None:
        return self.handler.eof_received()  # type: ignore[no-any-return]

    def pause_writing(self) -> None:
        self.handler.pause_writing()

    def resume_writing(self) -> None:
        self.handler.resume_writing()


class GuardedRunner(web.AppRunner):
    """A runner whose connections are guarded."""

    def __init__(self, application: web.Application, strangers: Strangers, **options: Any) -> None:
        super().__init__(application, **options)
        self._strangers = strangers

    @property
    def server(self) -> Any:
        """Makes the protocol of each connection."""
        made = super().server
        return None if made is None else self._strangers.guarded(made)
