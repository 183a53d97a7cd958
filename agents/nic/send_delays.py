"""How long a packet takes from the agent's call to the driver: a sample of the kernel's transmit time stamps.

At most one call in ten milliseconds asks for a stamp, which comes back on the error queue of the socket, usually before
the call returns; a queueing discipline can delay it. Source: Linux, Documentation/networking/timestamping.rst.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence

from agents.nic.send_batch import SendBatch
from agents.nic.sockets import Sender
from agents.nic.stamps import stamp_ns
from agents.nic.system_calls import SO_TIMESTAMPING, ControlMessages, SocketAddress
from emulator.control.parameter import Parameter
from emulator.host.delays import NewestDelays
from emulator.results.statistics.method.descriptive import median, percentile
from emulator.roce.wire.headers import Buffer

_TX_SOFTWARE, _SOFTWARE, _OPT_TSONLY = 1 << 1, 1 << 4, 1 << 11  # linux/net_tstamp.h
_ASKED, _NOT_ASKED = _SOFTWARE | _OPT_TSONLY | _TX_SOFTWARE, _SOFTWARE | _OPT_TSONLY
_GAP_NS = 10_000_000
_PATIENCE_NS = 1_000_000_000
_CONTROL_BYTES = 512


class SendDelays(NewestDelays):
    """The newest delays of stamped calls, of all sockets of a process.

    Attributes:
        due_ns: until then no call may ask, on CLOCK_MONOTONIC.
    """

    def __init__(self) -> None:
        super().__init__()
        self.due_ns = 0

    def postpone(self, now: int) -> None:
        """A call asks: the next one may not before the gap is over."""
        self.due_ns = now + _GAP_NS

    def facts(self) -> Mapping[str, Parameter]:
        """Median and 99th percentile, as far as there are enough."""
        found = self.delays_ns()
        values = {"send_delay_median": median(found), "send_delay_p99": percentile(found, 0.99)}
        return {name: Parameter(round(value), "ns") for name, value in values.items() if value is not None}


class StampedSender(Sender):
    """A sender some of whose calls are stamped.

    Args:
        delays: where the delays go; see Sender for the others.
    """

    def __init__(
        self, host: str, port: int, *, traffic_class: int, device: str | None = None, delays: SendDelays
    ) -> None:
        super().__init__(host, port, traffic_class=traffic_class, device=device)
        self._delays, self._asked_ns = delays, 0  # on CLOCK_REALTIME, as the stamps are; 0: none is awaited
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, _NOT_ASKED)

    def send(
        self, pieces: Sequence[Buffer], to: SocketAddress, control: ControlMessages = (), *, packets: int = 1
    ) -> bool:
        """See Sender."""
        if time.monotonic_ns() < self._delays.due_ns or not self._ask():
            return Sender.send(self, pieces, to, control, packets=packets)
        try:
            return Sender.send(self, pieces, to, control, packets=packets)
        finally:
            self._end()

    def send_cut(self, batch: SendBatch, slot: int, count: int, to: SocketAddress) -> None:
        """See Sender; a call that is stamped goes alone."""
        if time.monotonic_ns() >= self._delays.due_ns and self._ask():
            first = min(count, batch.staging.payload.per_call)
            try:
                Sender.send_cut(self, batch, slot, first, to)
            finally:
                self._end()
            slot, count = slot + first, count - first
        if count:
            Sender.send_cut(self, batch, slot, count, to)

    def send_whole(self, datagram: Buffer, to: SocketAddress) -> None:
        """See Sender."""
        if time.monotonic_ns() < self._delays.due_ns:
            Sender.send_whole(self, datagram, to)
        else:
            self.send((datagram,), to)

    def _ask(self) -> bool:
        self._delays.postpone(time.monotonic_ns())
        if self._asked_ns:
            self._collect()
            if self._asked_ns and 0 <= time.time_ns() - self._asked_ns < _PATIENCE_NS:
                return False
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, _ASKED)
        self._asked_ns = time.time_ns()
        return True

    def _end(self) -> None:
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, _NOT_ASKED)
        self._collect()

    def _collect(self) -> None:
        """Take the stamp, if it is there."""
        try:
            _, control, _, _ = self._socket.recvmsg(1, _CONTROL_BYTES, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
        except OSError:  # nothing there
            return
        for level, kind, data in control:
            if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPING) and self._asked_ns:
                delay_ns = stamp_ns(data) - self._asked_ns  # the first of three times is by software
                if 0 <= delay_ns < _PATIENCE_NS:  # else CLOCK_REALTIME was set meanwhile
                    self._delays.note(delay_ns)
                self._asked_ns = 0
