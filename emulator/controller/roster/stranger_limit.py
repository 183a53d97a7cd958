"""How many connections to the control port may say nothing of use: so many in all, and half of them of one peer.

gRPC limits the number of all connections, but not that of a peer, and it owns the sockets. One that is to end is shut
down here, which gRPC sees as the end of its peer.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import time
from collections import defaultdict
from collections.abc import Container, Iterator
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import unquote

from emulator.host.resources import raise_descriptors

MOST_CONNECTIONS = 8192
_QUIET_S = 60.0

logger = logging.getLogger(__name__)


class StrangerLimit:
    """Ends connections of a peer beyond its share; those of agents that have proved who they are stay.

    Args:
        proved: gRPC's names of their ends.
        most: connections in all; None: half of the descriptors that this process may have.
    """

    def __init__(self, proved: Container[str], *, most: int | None = None) -> None:
        self._proved = proved
        self.most = most or min(MOST_CONNECTIONS, raise_descriptors() // 2)
        self._since: dict[str, float] = {}  # by the other end
        self._ended, self._said_s = 0, -_QUIET_S

    def enforce(self, port: int) -> None:
        """Look at all connections to a port; to be called several times a second."""
        most, now = self.most // 2, time.monotonic()
        if sum(1 for _ in Path("/proc/self/fd").iterdir()) <= most:
            return
        with contextlib.ExitStack() as stack:
            found = {end: one for end, one in _connections(port, stack) if end not in self._proved}
            self._since = {end: self._since.get(end, now) for end in found}
            of_peer = defaultdict[str, list[str]](list)
            for end in sorted(found, key=self._since.__getitem__):
                of_peer[end.rpartition(":")[0]].append(end)
            for peer, ends in of_peer.items():
                for end in ends[: max(0, len(ends) - most)]:
                    self._end(found[end], peer, most)

    def _end(self, connection: socket.socket, peer: str, most: int) -> None:
        """The one that has waited longest gives way; said once a minute."""
        with contextlib.suppress(OSError):  # it has just ended
            connection.shutdown(socket.SHUT_RDWR)
        self._ended += 1
        if time.monotonic() - self._said_s >= _QUIET_S:
            logger.warning(
                "ended connections to the control address: %d, the last one of %s: more than %d of one peer do not say "
                "who they are",
                *(self._ended, peer, most),
            )
            self._ended, self._said_s = 0, time.monotonic()


def end_of(grpc_peer: str) -> str:
    """The other end of a connection, of gRPC's name for it: `ipv6:%5B::1%5D:5` -> `::1:5`."""
    host, _, port = unquote(grpc_peer).partition(":")[2].rpartition(":")
    return f"{host.strip('[]')}:{port}"


def _connections(port: int, stack: contextlib.ExitStack) -> Iterator[tuple[str, socket.socket]]:
    """TCP connections of this process to a local port, by their other ends, each as a duplicate."""
    for one in list(Path("/proc/self/fd").iterdir()):
        try:
            if not str(one.readlink()).startswith("socket:"):
                continue
            found = stack.enter_context(socket.socket(fileno=os.dup(int(one.name))))
            if found.type == socket.SOCK_STREAM and found.family in (socket.AF_INET, socket.AF_INET6):
                own, other = found.getsockname(), found.getpeername()
                if own[1] == port:
                    yield f"{_plain(other[0])}:{other[1]}", found
        except OSError:  # it has just been closed, or is no connection
            continue


def _plain(host: str) -> str:
    address = ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
