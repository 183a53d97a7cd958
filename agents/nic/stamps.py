"""The kernel's receive time stamps (SO_TIMESTAMPNS): from CLOCK_REALTIME to CLOCK_MONOTONIC.

The kernel stamps a datagram when the driver hands it to the network stack, a merged reception when it is complete.
Every reception of such a socket has a stamp, in the first control message: if the kernel had not yet begun to stamp on
arrival, it is the time of the read. Source: Linux, Documentation/networking/timestamping.rst, net/socket.c.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from typing import NamedTuple

from emulator.roce.wire.headers import Buffer

_TIMESPEC = struct.Struct("=qq")
STAMP_BYTES, STAMP_SPACE = _TIMESPEC.size, socket.CMSG_SPACE(_TIMESPEC.size)
"""A struct timespec, alone and as a control message."""
_READINGS = 5
_CHECK_NS = 10_000_000
_STEP_NS = 100_000_000
"""A clock whose offset changes by more was set; NTP slews what is less (ntpd(8), option -x: 128 ms)."""


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
    """

    __slots__ = ("_checked_ns", "_offset_ns", "_read")

    def __init__(self, read: Callable[[], Bracket] = read_clocks) -> None:
        self._checked_ns = self._offset_ns = 0
        self._read = read

    def monotonic(self, realtime_ns: int) -> int:
        """A time of CLOCK_REALTIME on CLOCK_MONOTONIC."""
        if not 0 <= realtime_ns - self._checked_ns < _CHECK_NS:
            self._check(realtime_ns)
        return realtime_ns - self._offset_ns

    def _check(self, realtime_ns: int) -> None:
        """If the clock was set, the stamp may be from before: the latest time that is not in the future is its own."""
        now, before_ns = self._read(), self._offset_ns
        offsets = [now.offset_ns] + [before_ns] * (abs(now.offset_ns - before_ns) > _STEP_NS)
        possible = [one for one in offsets if realtime_ns - one <= now.after_ns]
        self._checked_ns, self._offset_ns = realtime_ns, min(possible, default=now.offset_ns)
