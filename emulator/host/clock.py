"""The clock of a player, with alarms: virtual in tests, else CLOCK_MONOTONIC and a timerfd that wakes the event loop.

An event loop's own timers round to a millisecond (epoll) and carry the kernel's timer slack; a timerfd does neither,
and costs nothing while it waits.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import heapq
import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Protocol

from emulator.errors import HostError
from emulator.units import NS_PER_S


class Clock(Protocol):
    """`now` and alarms on one monotonic axis of integer nanoseconds."""

    def now(self) -> int:
        """Nanoseconds; comparable between all processes of one host."""
        ...

    def call_at(self, when: int, callback: Callable[[], None]) -> None:
        """Call back once, at `when` or soon after; alarms due at the same time in the order they were set."""
        ...


_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TIME_NAMESPACE = Path("/proc/self/ns/time")


def clock_id(boot_id: Path = _BOOT_ID, time_namespace: Path = _TIME_NAMESPACE) -> str:
    """The boot id and the time namespace, which shifts CLOCK_MONOTONIC; "" if the kernel does not provide them."""
    try:
        boot = boot_id.read_text().strip()
    except OSError:
        return ""
    try:
        return f"{boot}/{time_namespace.readlink()}"
    except OSError:
        return boot  # a kernel without time namespaces


_NEVER = 1 << 63
TURN_NS = 20_000_000
"""Time that alarms due together take at once: hundreds of ranks that begin must not keep the agent from reporting."""


if sys.version_info >= (3, 13):

    def _create() -> int:
        return os.timerfd_create(time.CLOCK_MONOTONIC, flags=os.TFD_NONBLOCK | os.TFD_CLOEXEC)

    def _set_ns(fd: int, when: int) -> None:
        os.timerfd_settime_ns(fd, flags=os.TFD_TIMER_ABSTIME, initial=when)

else:
    _TFD_TIMER_ABSTIME = 1  # linux/timerfd.h; the creation flags are those of open(2)

    _libc = ctypes.CDLL(None, use_errno=True)
    _libc.timerfd_settime.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
    _ITIMERSPEC = struct.Struct("@4l")  # interval, then value, each in s and ns; costs less than ctypes' structures

    def _checked(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result

    def _create() -> int:
        return _checked(_libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC))

    def _set_ns(fd: int, when: int) -> None:
        setting = _ITIMERSPEC.pack(0, 0, *divmod(when, NS_PER_S))
        _checked(_libc.timerfd_settime(fd, _TFD_TIMER_ABSTIME, setting, None))


class TimerfdClock(Clock):
    """Alarms on CLOCK_MONOTONIC, which all processes of a host share; works on asyncio's own loop and on uvloop.

    An alarm for a time already past fires on the next pass of the loop. An alarm is never early.

    Args:
        loop: the loop that runs the callbacks; the running one when not given.

    Raises:
        HostError: no timer can be made.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or asyncio.get_running_loop()
        self._alarms: list[tuple[int, int, Callable[[], None]]] = []  # when, order, callback
        self._set = 0
        self._armed_for = _NEVER
        self._fd = _open_timer()
        self._loop.add_reader(self._fd, self._fire)

    def __enter__(self) -> TimerfdClock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def now(self) -> int:
        """Nanoseconds of CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    def call_at(self, when: int, callback: Callable[[], None]) -> None:
        """Call back once at `when`; ignored once closed."""
        if self._fd < 0:
            return
        self._set += 1
        heapq.heappush(self._alarms, (when, self._set, callback))
        if when < self._armed_for:
            self._arm(when)

    def close(self) -> None:
        """Forget all alarms and free the timer; idempotent."""
        if self._fd < 0:
            return
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._fd = -1
        self._alarms.clear()

    def _arm(self, when: int) -> None:
        _set_ns(self._fd, max(when, 1))  # 0 would disarm
        self._armed_for = when

    def _fire(self) -> None:
        """Run what is due, for TURN_NS. The rest, and alarms set by callbacks, wait, so that others get a turn."""
        self._armed_for = -1  # while callbacks run, nobody arms
        now, newest, end = 0, self._set, time.monotonic_ns() + TURN_NS
        try:
            while self._alarms and self._alarms[0][1] <= newest and now <= end:
                now = time.monotonic_ns()
                if self._alarms[0][0] > now:
                    break
                heapq.heappop(self._alarms)[2]()
        finally:
            self._rearm()

    def _rearm(self) -> None:
        if self._fd < 0:
            return
        if self._alarms:
            self._arm(self._alarms[0][0])
        else:
            _set_ns(self._fd, 0)  # disarms, and takes back the expiry that woke us
            self._armed_for = _NEVER


def _open_timer() -> int:
    try:
        return _create()
    except OSError as error:
        remedy = "; raise `ulimit -n`" if error.errno in (errno.EMFILE, errno.ENFILE) else ""
        raise HostError(f"cannot create a timer: {error.strerror}{remedy}") from error
