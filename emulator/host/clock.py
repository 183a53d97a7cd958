"""The clock of a player, with alarms: real (timerfd) or virtual (tests)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """`now` and alarms on one monotonic axis of integer nanoseconds."""

    def now(self) -> int:
        """Nanoseconds; comparable between all processes of one host."""
        ...

    def call_at(self, when: int, callback: Callable[[], None]) -> None:
        """Call back once, at `when` or soon after; alarms due at the same time in the order they were set."""
        ...
