"""What congestion control is to a queue pair: it learns of CNPs and bytes sent, and sets the rate."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class FixedRate:
    """No congestion control: `rate` bit/s; None: as fast as the window allows."""

    rate: float | None = None

    def rate_bps(self, now: int) -> float | None:
        """See CongestionControl."""
        return self.rate

    def notified(self, now: int) -> None:
        """See CongestionControl."""

    def sent(self, size: int, now: int) -> None:
        """See CongestionControl."""
