"""The kernel's time stamps, from CLOCK_REALTIME to CLOCK_MONOTONIC: of receptions, and of first packets that are sent.

The kernel stamps a datagram (SO_TIMESTAMPNS) when the driver hands it to the network stack, a merged reception when it
is complete. Every reception of such a socket has a stamp, in the first control message: if the kernel had not yet begun
to stamp on arrival, it is the time of the read.

A call that has the first packet of a transfer asks for the time at which the kernel hands it to the driver, behind any
queueing discipline. That comes back on the error queue of the socket, usually before the call returns, with the number
of the request. Stamps are collected between iterations, or when many are out. Source: Linux,
Documentation/networking/timestamping.rst, net/socket.c, net/core/skbuff.c.
"""

from __future__ import annotations

import ctypes
import errno
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from agents.nic.sockets import Sender
from agents.nic.system_calls import SO_TIMESTAMPING, ControlMessages, SocketAddress, address_of
from emulator.control.parameter import Parameter
from emulator.host.batches import CONTROL_HEADER, MESSAGE, recvmmsg
from emulator.host.delays import NewestDelays
from emulator.results.statistics.method.descriptive import median, percentile
from emulator.roce.connection.messages import FirstSent
from emulator.roce.wire.headers import Buffer

_TIMESPEC = struct.Struct("=qq")
STAMP_BYTES, STAMP_SPACE = _TIMESPEC.size, socket.CMSG_SPACE(_TIMESPEC.size)
"""A struct timespec, alone and as a control message."""
_READINGS = 5
_CHECK_NS = 10_000_000
_STEP_NS = 100_000_000
"""A clock whose offset changes by more was set; NTP slews what is less (ntpd(8), option -x: 128 ms)."""
_FASTEST_SLEW = 2000
"""Time over what a clock that is slewed moves in it, at least (adjtimex(2): 500 ppm)."""
_SLACK_NS = 20_000
"""More than two brackets are off; a stamp that lies further outside of what this process saw is not of this clock."""


def stamp_ns(stamp: Buffer) -> int:
    """The time in a struct timespec, ns."""
    seconds, nanoseconds = _TIMESPEC.unpack_from(stamp)
    return int(seconds * 1_000_000_000 + nanoseconds)


class Bracket(NamedTuple):
    """A reading of CLOCK_REALTIME between two of CLOCK_MONOTONIC, ns."""

    before_ns: int
    realtime_ns: int
    after_ns: int

    @property
    def width_ns(self) -> int:
        """Twice the largest error of the offset."""
        return self.after_ns - self.before_ns

    @property
    def offset_ns(self) -> int:
        """CLOCK_REALTIME minus CLOCK_MONOTONIC."""
        return self.realtime_ns - (self.before_ns + self.after_ns) // 2


def read_clocks() -> Bracket:
    """The narrowest of a few brackets: an interrupt widens the others."""
    readings = [Bracket(time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(_READINGS)]
    return min(readings, key=lambda one: one.width_ns)


class Stamps:
    """Converts stamps, with an offset measured every 10 ms of stamps and whenever they jump back: clocks can be set.

    Args:
        read: reads both clocks.

    Attributes:
        steps: how often the clock was set: what was stamped shortly before may have been converted wrongly.
    """

    __slots__ = ("_checked_ns", "_offset_ns", "_read", "_seen_ns", "steps")

    def __init__(self, read: Callable[[], Bracket] = read_clocks) -> None:
        self._checked_ns = self._offset_ns = self._seen_ns = self.steps = 0
        self._read = read

    def monotonic(self, realtime_ns: int) -> int:
        """A time of CLOCK_REALTIME on CLOCK_MONOTONIC."""
        if not 0 <= realtime_ns - self._checked_ns < _CHECK_NS:
            self._check(realtime_ns)
        return realtime_ns - self._offset_ns

    def _check(self, realtime_ns: int) -> None:
        """If the clock was set, the stamp may be from before: the latest time that is not in the future is its own."""
        now, before_ns = self._read(), self._offset_ns
        drift_ns = now.width_ns + _SLACK_NS + (now.after_ns - self._seen_ns) // _FASTEST_SLEW
        self.steps += bool(self._seen_ns) and abs(now.offset_ns - before_ns) > drift_ns
        self._seen_ns = now.after_ns
        offsets = [now.offset_ns] + [before_ns] * (abs(now.offset_ns - before_ns) > _STEP_NS)
        possible = [one for one in offsets if realtime_ns - one <= now.after_ns]
        self._checked_ns, self._offset_ns = realtime_ns, min(possible, default=now.offset_ns)


class HeldFrames:
    """Takes off what the kernel waits for frames to merge with: it stamps a reception when it passes it on.

    An interface with `gro_flush_timeout` holds a frame until a timer ends, a shorter one of its flow follows, or a
    longer one, which is then held in turn. The last frame of a message is often longer than the ones before: the stamp
    of those is then the time at which it came.

    Args:
        hold_ns: the timer of the interface; 0: it holds nothing.
    """

    __slots__ = ("_late_ns", "hold_ns")

    def __init__(self, hold_ns: int) -> None:
        self.hold_ns = hold_ns
        self._late_ns = _TIMER_LATE_NS  # how late the timer is, at the median of what is seen

    def came(self, at_ns: int, earlier_ns: int) -> int:
        """When a frame that was held came.

        Args:
            at_ns: its stamp.
            earlier_ns: that of what came before it on the same flow; 0: nothing did.
        """
        late_ns = at_ns - earlier_ns - self.hold_ns
        if 0 <= late_ns < 2 * _MOST_TIMER_LATE_NS:
            late_most = self._late_ns + (_TIMER_STEP_NS if late_ns > self._late_ns else -_TIMER_STEP_NS)
            self._late_ns = min(max(0, late_most), _MOST_TIMER_LATE_NS)
        return max(at_ns - self.hold_ns - self._late_ns, earlier_ns)


_TIMER_LATE_NS, _MOST_TIMER_LATE_NS, _TIMER_STEP_NS = 10_000, 50_000, 500
"""How late the timer of held frames is taken to be at first, and at most; how fast that follows what is seen."""
_TX_SOFTWARE, _SOFTWARE, _OPT_ID, _OPT_TSONLY = 1 << 1, 1 << 4, 1 << 7, 1 << 11  # linux/net_tstamp.h
_REPORTED = _SOFTWARE | _OPT_TSONLY | _OPT_ID
_ASK: ControlMessages = ((socket.SOL_SOCKET, SO_TIMESTAMPING, struct.pack("=I", _TX_SOFTWARE)),)
_SO_ATTACH_FILTER, _DROP_ALL = 26, struct.pack("=HBBI", 6, 0, 0, 0)  # linux/filter.h: BPF_RET | BPF_K, no byte
_QUEUE_BYTES = 64 << 10
"""Of a socket's error queue, which the kernel charges to its receive buffer: a stamp takes less than 1 KiB."""
_MOST_OUT = 24
"""Requests of a socket after which its stamps are collected."""
_MOST_READ = 32
_TIMES_SPACE, _ERROR = socket.CMSG_SPACE(3 * STAMP_BYTES), struct.Struct("=IBBBBII")  # linux/errqueue.h
_ROOM = _TIMES_SPACE + socket.CMSG_SPACE(_ERROR.size + 28)
_PATIENCE_NS = 1_000_000_000


class SendLog:
    """The time stamps that the senders of a process have asked for.

    Args:
        stamps: converts them.

    Attributes:
        delays: from the call to the driver.
    """

    def __init__(self, stamps: Stamps | None = None) -> None:
        self.stamps, self.delays = stamps or Stamps(), NewestDelays()
        self._waiting: list[StampedSender] = []
        controls, pieces = _MOST_READ * MESSAGE.itemsize, _MOST_READ * _ROOM
        self._state = bytearray(controls + pieces)
        self._controls, self._address = controls, address_of(self._state)
        header = np.frombuffer(self._state, MESSAGE, _MOST_READ)["header"]
        header["control"] = self._address + controls + np.arange(_MOST_READ) * _ROOM
        header["control_length"] = _ROOM
        self._fresh = bytes(self._state)

    def note(self, sender: StampedSender) -> None:
        """A sender asks for the first time since the last collection."""
        self._waiting.append(sender)

    def collect(self) -> None:
        """Take all stamps that are there."""
        waiting, self._waiting = self._waiting, []
        for sender in waiting:
            sender.collect()

    def read(self, fd: int) -> Sequence[tuple[int, int]]:
        """Up to 32 stamps from the error queue of a socket: number of the request, time on CLOCK_REALTIME."""
        state, found = self._state, []
        state[:] = self._fresh
        count: int = recvmmsg(fd, self._address, _MOST_READ, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT, None)
        for index in range(count):
            at = self._controls + index * _ROOM
            _, level, kind = CONTROL_HEADER.unpack_from(state, at)
            if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPING:  # the first of three times is by software
                seconds, nanoseconds = _TIMESPEC.unpack_from(state, at + CONTROL_HEADER.size)
                number = _ERROR.unpack_from(state, at + _TIMES_SPACE + CONTROL_HEADER.size)[-1]
                found.append((number, seconds * 1_000_000_000 + nanoseconds))
        return found

    def facts(self) -> Mapping[str, Parameter]:
        """Median and 99th percentile of the delays, as far as there are enough."""
        found = self.delays.delays_ns()
        values = {"send_delay_median": median(found), "send_delay_p99": percentile(found, 0.99)}
        return {name: Parameter(round(value), "ns") for name, value in values.items() if value is not None}


class StampedSender(Sender):
    """A sender that asks when the first packets of transfers leave.

    Args:
        log: reads the stamps; see Sender for the others.
    """

    def __init__(self, host: str, port: int, *, traffic_class: int, device: str | None = None, log: SendLog) -> None:
        super().__init__(host, port, traffic_class=traffic_class, device=device)
        self._log = log
        self._asked: dict[int, Sequence[FirstSent]] = {}  # by number of the request
        self._number, self._is_noted = 0, False
        code = ctypes.create_string_buffer(_DROP_ALL, len(_DROP_ALL))
        program = struct.pack("@HP", 1, ctypes.addressof(code))
        self._is_asking = True
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)  # the room is for stamps alone
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _QUEUE_BYTES)
            self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, _REPORTED)
        except OSError:  # a kernel that does not stamp
            self._is_asking = False

    def send_first(
        self,
        pieces: Sequence[Buffer],
        to: SocketAddress,
        sent: Sequence[FirstSent],
        control: ControlMessages = (),
        *,
        packets: int = 1,
    ) -> bool:
        """See Sender."""
        if not self._is_asking:
            return self.send(pieces, to, control, packets=packets)
        asked = self._asked
        if not self._is_noted:
            self._is_noted = True
            self._log.note(self)
        if len(asked) >= _MOST_OUT:
            self._take()
        now = time.monotonic_ns()
        for one in sent:
            one.asked_ns = now
        try:
            self._sendmsg(pieces, (*control, *_ASK), 0, to)
        except OSError as error:
            self._count_again()
            if error.errno == errno.EINVAL:  # a kernel that cannot be asked with a call, if the call alone is valid
                self._is_asking = False
                return self.send(pieces, to, control, packets=packets)
            return self._send_again(error, pieces, to, control, packets=packets)
        asked[self._number] = sent
        self._number += 1
        return True

    def collect(self) -> None:
        """Take the stamps that are there; give up those whose packet was dropped before the driver."""
        self._take()
        before_ns = time.monotonic_ns() - _PATIENCE_NS
        for number in [one for one, sent in self._asked.items() if sent[0].asked_ns < before_ns]:
            del self._asked[number]
        self._is_noted = bool(self._asked)
        if self._asked:
            self._log.note(self)

    def _take(self) -> None:
        log, asked = self._log, self._asked
        while found := log.read(self._fd):
            now = time.monotonic_ns()
            for number, realtime_ns in found:
                sent = asked.pop(number, None)
                if sent is None:
                    continue
                at_ns, asked_ns = log.stamps.monotonic(realtime_ns), sent[0].asked_ns
                if asked_ns - _SLACK_NS <= at_ns <= now + _SLACK_NS:  # else CLOCK_REALTIME was set meanwhile
                    log.delays.note(max(0, at_ns - asked_ns))
                    for one in sent:
                        one.at_ns = at_ns
            if len(found) < _MOST_READ:
                break

    def _count_again(self) -> None:
        """Whether a call that failed has a number is not known: begin at 0 again, and give up what is out."""
        self._asked.clear()
        self._number = 0
        for flags in (0, _REPORTED):
            self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, flags)
        self._log.read(self._fd)
