"""The clock of a player, with alarms: real (timerfd) or virtual (tests)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol


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


def clock_id() -> str:
    """The boot id and the time namespace, which shifts CLOCK_MONOTONIC; "" if the kernel does not provide them."""
    try:
        boot = _BOOT_ID.read_text().strip()
    except OSError:
        return ""
    try:
        return f"{boot}/{_TIME_NAMESPACE.readlink()}"
    except OSError:
        return boot  # a kernel without time namespaces
