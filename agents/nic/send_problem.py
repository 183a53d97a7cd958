"""Why the kernel refuses a packet: asked once it has, as the error itself names only the symptom."""

from __future__ import annotations

import errno
import socket

from emulator.errors import HostError
from emulator.roce.connection.qp_facts import QpFacts
from emulator.roce.constants import UDP_PORT

_IP_MTU, _IPV6_MTU = 14, 24  # linux/in.h, linux/in6.h: of the route of a connected socket


def send_problem(error: OSError | HostError, facts: QpFacts, *, path_mtu: int, has_sent: bool) -> str:
    """Describe why sending fails.

    Args:
        error: the refusal.
        facts: where packets of the queue pair come from and go to.
        path_mtu: of the queue pair.
        has_sent: whether the peer has acknowledged packets before.
    """
    if isinstance(error, HostError):
        return str(error)
    host, peer = facts.host, facts.peer_host
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0))
            probe.connect((peer, UDP_PORT))
        except OSError as found:
            if found.errno == errno.EADDRNOTAVAIL:
                return f"{host} is no longer an address of this host: it was removed, or its interface was"
        else:
            if error.errno == errno.EMSGSIZE:
                return _too_long(peer, path_mtu, _mtu_of(probe), has_sent=has_sent)
    return f"cannot send to {peer}: {error.strerror}"


def _too_long(peer: str, path_mtu: int, mtu: int, *, has_sent: bool) -> str:
    if has_sent:
        return (
            f"packets to {peer} fitted and no longer do, as the MTU of the route there is {mtu} now: its address or a "
            "route was removed, or an interface changed"
        )
    return f"packets of path MTU {path_mtu} do not fit the route to {peer} (MTU {mtu}): choose a smaller --path-mtu"


def _mtu_of(connected: socket.socket) -> int:
    if connected.family == socket.AF_INET6:
        return connected.getsockopt(socket.IPPROTO_IPV6, _IPV6_MTU)
    return connected.getsockopt(socket.IPPROTO_IP, _IP_MTU)
