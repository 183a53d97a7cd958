"""Watches the TCP connections under a ZeroMQ socket: ZeroMQ hides their ends, a measurement must not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import zmq
from zmq.utils.monitor import recv_monitor_message

RETRY_MS = 100
"""Time between attempts to connect."""

ATTEMPTS = 20
"""Attempts to connect before the peer counts as unreachable: it has been listening since before it was named."""

_REFUSED = zmq.EVENT_CONNECT_RETRIED
_HANDSHAKE_FAILED = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)
_OPENED = zmq.EVENT_CONNECTED | zmq.EVENT_ACCEPTED
_WATCHED = _OPENED | _REFUSED | _HANDSHAKE_FAILED | zmq.EVENT_DISCONNECTED | zmq.EVENT_ACCEPT_FAILED


class ConnectionMonitor:
    """Calls back when a watched connection is lost or cannot be made.

    Args:
        socket: the socket to watch.
        refused_peer: called with the local address and the reason when a peer's connection cannot be accepted.
    """

    def __init__(self, socket: zmq.Socket[bytes], *, refused_peer: Callable[[str, str], None]) -> None:
        self.connections = 0
        self._loop = asyncio.get_running_loop()
        self._watched: dict[str, Callable[[str], None]] = {}
        self._attempts: dict[str, int] = {}
        self._refused_peer = refused_peer
        self._socket = socket
        self._reports = socket.get_monitor_socket(_WATCHED)
        self._fd = self._reports.fileno()
        self._loop.add_reader(self._fd, self._drain)

    def watch(self, remote: str, lost: Callable[[str], None]) -> None:
        """Call `lost` with a reason when the connection to `remote` ends or cannot be made."""
        self._watched[remote] = lost

    def forget(self, remote: str) -> None:
        """Watch `remote` no longer."""
        self._watched.pop(remote, None)
        self._attempts.pop(remote, None)

    def close(self) -> None:
        """Stop watching; call once, before the socket closes."""
        self._loop.remove_reader(self._fd)
        self._socket.disable_monitor()
        self._reports.close(linger=0)

    def _drain(self) -> None:
        try:
            while True:
                message = recv_monitor_message(self._reports, zmq.NOBLOCK)
                self._handle(int(message["event"]), int(message["value"]), message["endpoint"].decode())
        except zmq.Again:
            pass

    def _handle(self, event: int, value: int, where: str) -> None:
        if event & _OPENED:
            self.connections += 1
        elif event == zmq.EVENT_DISCONNECTED:
            self.connections -= 1
            self._lose(where, "the connection was lost")
        elif event == zmq.EVENT_ACCEPT_FAILED:
            self._refused_peer(where, f"a peer's connection cannot be accepted: {os.strerror(value)}")
        else:
            self._attempts[where] = self._attempts.get(where, 0) + 1
            if self._attempts[where] >= ATTEMPTS:
                self._lose(where, "no connection can be made")

    def _lose(self, where: str, reason: str) -> None:
        lost = self._watched.get(where)
        if lost is not None:
            self.forget(where)
            lost(reason)
