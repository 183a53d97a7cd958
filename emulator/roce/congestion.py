"""What congestion control is to a queue pair: it hears of CNPs and of bytes sent, and says how fast to send."""

from __future__ import annotations

from typing import Protocol


class CongestionControl(Protocol):
    """One flow's reaction to congestion; `now` is ns on any monotonic clock."""

    def rate_bps(self, now: int) -> float | None:
        """Rate to send at, bit/s; None: as fast as the window allows."""
        ...

    def notified(self, now: int) -> None:
        """A CNP came."""
        ...

    def sent(self, size: int, now: int) -> None:
        """`size` bytes were sent."""
        ...


class FixedRate:
    """No congestion control: `rate` bit/s, or no limit where that is None."""

    __slots__ = ("_rate",)

    def __init__(self, rate: float | None = None) -> None:
        self._rate = rate

    def rate_bps(self, now: int) -> float | None:
        """See CongestionControl."""
        return self._rate

    def notified(self, now: int) -> None:
        """See CongestionControl."""

    def sent(self, size: int, now: int) -> None:
        """See CongestionControl."""
