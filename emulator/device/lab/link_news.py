"""Takes links of switches up and down at a moment, and hears from the kernel when they did (rtnetlink).

It also hears when the queueing discipline of a port changed, which is what a rate or a delay of a port is made of, and
when a router got a route through a port.

A command would do the same, but on a busy host it takes up to half a second to start. The kernel says what it has done
when it has; its messages have no time stamp of their own, so a thread takes their times as they come.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from emulator.device.lab.commands import inside
from emulator.device.lab.model import Node
from emulator.device.netlink import attributes, messages
from emulator.errors import HostError
from emulator.host.resources import exhausted

_LINK, _ROUTE, _HOP = struct.Struct("=BxHiII"), struct.Struct("=5xB6x"), struct.Struct("=HxxI")
_GROUPS = 0x1 | 0x8 | 0x40 | 0x400
"""RTMGRP_LINK, _TC, _IPV4_ROUTE and _IPV6_ROUTE of linux/rtnetlink.h; struct ifinfomsg, rtmsg and rtnexthop."""
_NEW_LINK, _NAME = 16, 3
_NEW_ROUTE, _BY_KERNEL, _PORT, _HOPS = 24, 2, 4, 9
"""RTM_NEWLINK and IFLA_IFNAME; RTM_NEWROUTE, RTPROT_KERNEL, RTA_OIF and RTA_MULTIPATH: of the same, and if_link.h."""
_QDISC = struct.Struct("=B3xiIII")
_NEW_QDISC, _DEL_QDISC = 36, 37
"""struct tcmsg, RTM_NEWQDISC and RTM_DELQDISC of the same."""
_UP, _LOWER_UP = 0x1, 0x10000
_GET_FLAGS, _SET_FLAGS, _REQUEST = 0x8913, 0x8914, struct.Struct("16sH14x")
"""SIOCGIFFLAGS and SIOCSIFFLAGS of linux/sockios.h, and struct ifreq of linux/if.h."""
_MOST_BYTES = 1 << 16
_SO_RCVBUFFORCE, _WAITING_BYTES = 33, 4 << 20
"""Of asm-generic/socket.h; a router that gets its routes back has thousands of messages at once, of up to 1 KiB."""
MOST_NOTES = 1 << 16
"""Kept of links, and of queueing disciplines: what comes after them has the time of its command."""


class LinkNote(NamedTuple):
    """What the kernel said about a link: it is up, with the other end of its cable, or it is not."""

    time_ns: int
    node: str
    device: str
    is_up: bool


class QdiscNote(NamedTuple):
    """The kernel said that a queueing discipline of a port came, changed or went."""

    time_ns: int
    node: str
    device: str


class RouteNote(NamedTuple):
    """The kernel said that it has a route through a port, which it did not make by itself."""

    time_ns: int
    node: str
    device: str


class LinkNews:
    """A context manager that listens meanwhile.

    Args:
        nodes: switches of a lab.
        clock_ns: the clock of the run.
    """

    def __init__(self, nodes: Sequence[Node], *, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._nodes, self._clock_ns = nodes, clock_ns
        self._sockets: dict[int, tuple[socket.socket, str]] = {}
        self._notes: list[LinkNote] = []
        self._qdiscs: list[QdiscNote] = []
        self._routes: list[RouteNote] = []
        self._names: dict[tuple[str, int], str] = {}  # of ports: node, index
        self._wake = -1
        self._thread: threading.Thread | None = None

    def __enter__(self) -> LinkNews:
        """Begin to listen.

        Raises:
            HostError: a namespace cannot be entered.
        """
        if self._nodes:
            self._wake = os.eventfd(0)
            try:
                self._open()
            except (OSError, HostError) as error:
                self._close()
                raise exhausted(error) or HostError(f"the links of the lab cannot be watched: {error}") from error
            self._thread = threading.Thread(target=self._listen, name="link news", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._thread is not None:
            os.eventfd_write(self._wake, 1)
            self._thread.join()
            self._thread = None
            self._close()

    def set(self, node: str, devices: Sequence[str], *, is_up: bool) -> int | None:
        """Take links of a switch up or down; returns when the kernel was asked to, ns on the clock of the run.

        Returns:
            None: it is none of the switches that it listens to.

        Raises:
            HostError: the kernel refuses.
        """
        sock = next((sock for sock, name in self._sockets.values() if name == node), None)
        if sock is None:
            return None
        asked_ns = self._clock_ns()
        for device in devices:
            try:
                (_, flags) = _REQUEST.unpack(fcntl.ioctl(sock, _GET_FLAGS, _REQUEST.pack(device.encode(), 0)))
                flags = flags | _UP if is_up else flags & ~_UP
                fcntl.ioctl(sock, _SET_FLAGS, _REQUEST.pack(device.encode(), flags))
            except OSError as error:
                what = f"{device} of {node} cannot be taken {'up' if is_up else 'down'}"
                raise HostError(f"{what}: {error.strerror}") from error
        return asked_ns

    def first(self, node: str, device: str, *, is_up: bool, after_ns: int) -> int | None:
        """When the kernel first said so of a link after a time, ns on the clock of the run; None: it did not."""
        said = (one for one in list(self._notes) if one[1:] == (node, device, is_up) and one.time_ns >= after_ns)
        return next((one.time_ns for one in said), None)

    def qdisc_changed(self, node: str, device: str, *, after_ns: int) -> int | None:
        """When the kernel first said so of a port after a time, ns on the clock of the run; None: it did not."""
        said = (one for one in list(self._qdiscs) if one[1:] == (node, device) and one.time_ns >= after_ns)
        return next((one.time_ns for one in said), None)

    def routes_back(self, node: str, device: str, after_ns: int) -> int | None:
        """When the kernel had the last route through a port that came back after a time; None: none but its own did.

        Routes that come after the port went down again are those of another time.
        """
        down_ns = self.first(node, device, is_up=False, after_ns=after_ns)
        said = [one.time_ns for one in list(self._routes) if one[1:] == (node, device) and one.time_ns >= after_ns]
        return max((one for one in said if down_ns is None or one < down_ns), default=None)

    def _open(self) -> None:
        for node in self._nodes:
            with inside(node.namespace):
                sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE)
                self._sockets[sock.fileno()] = sock, node.name
                sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _WAITING_BYTES)
                sock.bind((0, _GROUPS))
                self._names |= {(node.name, index): name for index, name in socket.if_nameindex()}

    def _listen(self) -> None:
        poll = select.poll()
        for number in (self._wake, *self._sockets):
            poll.register(number, select.POLLIN)
        while True:
            ready = {number for number, _ in poll.poll()}
            now_ns = self._clock_ns()
            for number in ready & self._sockets.keys():
                sock, node = self._sockets[number]
                content = _received(sock)
                self._note(now_ns, node, content)
            if self._wake in ready:
                return

    def _note(self, now_ns: int, node: str, content: bytes) -> None:
        for device, is_up in parse_links(content):
            if len(self._notes) < MOST_NOTES:
                self._notes.append(LinkNote(now_ns, node, device, is_up))
        for index in parse_qdiscs(content):
            device = self._names.get((node, index), "")
            if device and len(self._qdiscs) < MOST_NOTES:
                self._qdiscs.append(QdiscNote(now_ns, node, device))
        for index in parse_routes(content):
            self._routes.append(RouteNote(now_ns, node, self._names.get((node, index), "")))

    def _close(self) -> None:
        for sock, _ in self._sockets.values():
            sock.close()
        self._sockets = {}
        os.close(self._wake)


def _received(sock: socket.socket) -> bytes:
    try:
        return sock.recv(_MOST_BYTES)
    except OSError:  # ENOBUFS: the kernel had more to say than fits
        return b""


def parse_links(content: bytes) -> Iterator[tuple[str, bool]]:
    """(device, whether it is up and the other end of its cable too) of every message about a link."""
    for kind, message in messages(content):
        if kind == _NEW_LINK and len(message) >= _LINK.size:
            _, _, _, flags, _ = _LINK.unpack_from(message)
            name = next((value for one, value in attributes(message[_LINK.size :]) if one == _NAME), b"")
            yield name.rstrip(b"\0").decode(errors="replace"), flags & (_UP | _LOWER_UP) == _UP | _LOWER_UP


def parse_qdiscs(content: bytes) -> Iterator[int]:
    """The index of the interface of every message about a queueing discipline."""
    for kind, message in messages(content):
        if kind in (_NEW_QDISC, _DEL_QDISC) and len(message) >= _QDISC.size:
            yield _QDISC.unpack_from(message)[1]


def parse_routes(content: bytes) -> Iterator[int]:
    """The index of the port, or of each port, of every message about a route that the kernel did not make itself."""
    for kind, message in messages(content):
        if kind != _NEW_ROUTE or len(message) < _ROUTE.size or _ROUTE.unpack_from(message)[0] == _BY_KERNEL:
            continue
        for one, value in attributes(message[_ROUTE.size :]):
            if one == _PORT and len(value) >= 4:
                yield int.from_bytes(value[:4], "little")
            elif one == _HOPS:
                yield from _hops(value)


def _hops(content: bytes) -> Iterator[int]:
    while len(content) >= _HOP.size:
        length, index = _HOP.unpack_from(content)
        yield index
        content = content[max(length, _HOP.size) :]
