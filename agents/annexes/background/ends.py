"""What a transport of background traffic does for the ends of a flow, and the socket options that they share."""

from __future__ import annotations

import socket
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from emulator.control.flows import FlowGap
from emulator.errors import HostError
from emulator.flows.background import BackgroundTask, WireSize
from emulator.results.statistics.method.descriptive import percentile

MOST_KEPT = 1 << 20


class Durations:
    """All durations, ns; beyond about a million, every second one, every fourth and so on.

    Attributes:
        count: durations noted.
    """

    __slots__ = ("_every", "_kept", "_most", "count")

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._kept, self._every, self._most, self.count = array("q"), 1, most, 0

    def note(self, duration_ns: int) -> None:
        """Add one."""
        if self.count % self._every == 0:
            self._kept.append(duration_ns)
            if len(self._kept) == self._most:
                self._kept, self._every = self._kept[::2], 2 * self._every
        self.count += 1

    def percentile(self, q: float) -> float | None:
        """See `emulator.results.statistics.method.descriptive.percentile`."""
        return percentile(np.frombuffer(self._kept, np.int64), q) if self._kept else None


_IPV6_TCLASS = 67  # linux/in6.h


@dataclass(slots=True)
class FlowTally:
    """What one end has counted, in its direction.

    Attributes:
        wire: how payload becomes packets.
        messages, bytes: complete; payload.
        wire_bytes: of them, headers included, each byte once.
        packets: sent, or received; None where the transport does not count them.
        lost: packets that did not come; None where the transport repeats them.
        completions: from when a message was due until it was complete.
        last_ns: when the last message was complete; 0: none was.
        gaps: the longest times in which nothing came and packets were lost, or in which nothing was sent, where the
            transport does not repeat what was lost.
    """

    wire: WireSize
    messages: int = 0
    bytes: int = 0
    wire_bytes: int = 0
    packets: int | None = None
    lost: int | None = None
    completions: Durations = field(default_factory=Durations)
    last_ns: int = 0
    gaps: Sequence[FlowGap] = ()

    def complete(self, size_bytes: int, now: int, due_ns: int | None = None) -> None:
        """Count a message."""
        self.messages += 1
        self.bytes += size_bytes
        self.wire_bytes += self.wire.wire_bytes(size_bytes)
        self.last_ns = now
        if due_ns is not None:
            self.completions.note(now - due_ns)


class FlowEnd(Protocol):
    """One end of a flow on the running event loop.

    Attributes:
        tally: what it has counted.
    """

    tally: FlowTally

    async def open(self) -> None:
        """Open sockets, and meet the other end where the transport has connections.

        Raises:
            EmulatorError: the address or port cannot be used, or the other end refuses.
        """
        ...

    async def failed(self) -> None:
        """Raise the error that ends the flow, when one occurs; never return otherwise."""
        ...

    async def finish(self) -> None:
        """Nothing more is offered, or expected: complete what is under way. The caller limits the time."""
        ...

    def counted(self) -> None:
        """Bring the tally up to date."""
        ...

    def close(self) -> None:
        """Stop at once; idempotent."""
        ...


class SendingEnd(FlowEnd, Protocol):
    """The end that sends."""

    def offer(self, size_bytes: int, due_ns: int) -> None:
        """A message is due. It waits here if it cannot leave; never blocks."""
        ...

    def send(self) -> None:
        """Let what was offered leave."""
        ...


def open_socket(task: BackgroundTask, kind: socket.SocketKind, device: str | None, port: int) -> socket.socket:
    """A socket of a flow that does not block, with its DSCP, at its address.

    Raises:
        HostError: the address, the port or the interface cannot be used.
    """
    is_v6 = ":" in task.address
    try:
        sock = socket.socket(socket.AF_INET6 if is_v6 else socket.AF_INET, kind | socket.SOCK_NONBLOCK)
    except OSError as error:
        raise HostError(f"cannot create a socket: {error.strerror}; raise `ulimit -n`") from error
    level, option = (socket.IPPROTO_IPV6, _IPV6_TCLASS) if is_v6 else (socket.IPPROTO_IP, socket.IP_TOS)
    try:
        if device is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
        if kind is socket.SOCK_STREAM:  # after a run that ended a moment ago
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(level, option, task.options.dscp << 2)
        sock.bind((task.address, port))
    except OSError as error:
        sock.close()
        raise HostError(f"cannot use port {port} of {task.address}: {error.strerror}; `ss -ltunp`") from error
    return sock
