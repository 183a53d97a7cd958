"""Watches the TCP connections of a ZeroMQ socket: ZeroMQ reconnects silently, which a measurement must not hide."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import zmq
from zmq.utils.monitor import recv_monitor_message

RETRY_MS = 100
"""Time between attempts to connect."""

ATTEMPTS = 20
"""Attempts to connect before the peer counts as unreachable; it was listening before its address was known."""

_WATCHED = (
    zmq.EVENT_ACCEPTED
    | zmq.EVENT_ACCEPT_FAILED
    | zmq.EVENT_CONNECTED
    | zmq.EVENT_CONNECT_RETRIED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)


class Connections:
    """The connections of a socket, from the events that ZeroMQ reports.

    Args:
        refused_peer: called with the local address and the reason when a connection of a peer cannot be accepted.
    """

    def __init__(self, *, refused_peer: Callable[[str, str], None]) -> None:
        self._accepted = 0
        self._watched: dict[str, Callable[[str], None]] = {}
        self._connecting: dict[str, dict[str, int]] = {}  # by remote address: connections under way, failed attempts
        self._refused_peer = refused_peer

    @property
    def connections(self) -> int:
        """Connections opened, being opened, or accepted."""
        return len(self._watched) + self._accepted

    def watch(self, connection: str, lost: Callable[[str], None]) -> None:
        """Call `lost` with a reason when `connection` (`tcp://local;remote`) ends or cannot be made."""
        self._watched[connection] = lost
        self._connecting.setdefault(_remote(connection), {})[connection] = 0

    def forget(self, connection: str) -> None:
        """Stop watching `connection`."""
        self._watched.pop(connection, None)
        self._connecting.get(_remote(connection), {}).pop(connection, None)

    def handle(self, event: int, value: int, where: str) -> None:
        """Account for an event.

        Args:
            event: a `zmq.EVENT_…`.
            value: of the event: an errno if something failed.
            where: the connection (`tcp://local;remote`), or one address if ZeroMQ knows only that.
        """
        if event == zmq.EVENT_CONNECTED:
            self._connecting.get(_remote(where), {}).pop(where, None)
        elif event == zmq.EVENT_ACCEPTED:
            self._accepted += 1
        elif event == zmq.EVENT_DISCONNECTED:
            self._accepted -= ";" not in where
            self._lose(where, "the connection was lost")
        elif event == zmq.EVENT_ACCEPT_FAILED:
            self._refused_peer(where, f"a peer's connection cannot be accepted: {os.strerror(value)}")
        else:
            self._retry(_remote(where))

    def _retry(self, remote: str) -> None:
        """A connection to `remote` could not be made; ZeroMQ does not report which one."""
        connecting = self._connecting.get(remote, {})
        if not connecting:
            return
        attempted = min(connecting, key=connecting.__getitem__)
        connecting[attempted] += 1
        if connecting[attempted] == ATTEMPTS:
            self._lose(attempted, "cannot connect")

    def _lose(self, connection: str, reason: str) -> None:
        lost = self._watched.get(connection)
        if lost is not None:
            self.forget(connection)
            lost(reason)


class ConnectionMonitor(Connections):
    """Reads the events of a socket on the running event loop.

    Args:
        socket: the socket to watch.
        refused_peer: see Connections; the monitor closes before the call.
    """

    def __init__(self, socket: zmq.Socket[bytes], *, refused_peer: Callable[[str, str], None]) -> None:
        super().__init__(refused_peer=refused_peer)
        self._is_closed = False
        self._loop = asyncio.get_running_loop()
        self._socket = socket
        self._reports = _monitor(socket)
        self._fd = self._reports.fileno()
        self._loop.add_reader(self._fd, self._drain)
        self._loop.call_soon(self._drain)  # the descriptor reports new messages only after a read that found none

    def close(self) -> None:
        """Stop watching, before the socket closes; idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._fd)
        self._socket.monitor(None, 0)
        self._reports.close(linger=0)

    def _drain(self) -> None:
        try:
            while not self._is_closed:
                message = recv_monitor_message(self._reports, zmq.NOBLOCK)
                event = int(message["event"])
                if event == zmq.EVENT_ACCEPT_FAILED:
                    self.close()  # ZeroMQ retries without a pause and would report every attempt
                self.handle(event, int(message["value"]), message["endpoint"].decode())
        except zmq.Again:
            pass


def _monitor(socket: zmq.Socket[bytes]) -> zmq.Socket[bytes]:
    name = f"inproc://monitor-{id(socket)}"
    socket.monitor(name, _WATCHED)
    reports: zmq.Socket[bytes] = socket.context.socket(zmq.PAIR)
    reports.setsockopt(zmq.RCVHWM, 0)  # a full queue would block the thread that carries the data
    reports.connect(name)
    return reports


def _remote(connection: str) -> str:
    return connection.removeprefix("tcp://").rpartition(";")[2]
