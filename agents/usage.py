"""How a rank spent its time: device busy, communication under way, both."""

from __future__ import annotations


class Usage:
    """Integrates two activity counters over time, in ns. Device = compute nodes that are no CPU operations."""

    __slots__ = ("_at", "_communications", "_devices", "communication_ns", "compute_ns", "overlap_ns")

    def __init__(self, start_ns: int) -> None:
        self._at = start_ns
        self._communications = 0
        self._devices = 0
        self.compute_ns = 0
        self.communication_ns = 0
        self.overlap_ns = 0

    def communication(self, change: int, now: int) -> None:
        """`change` more (or fewer) communications are under way from `now` on."""
        self._integrate(now)
        self._communications += change

    def device(self, change: int, now: int) -> None:
        """`change` more (or fewer) device nodes are running from `now` on."""
        self._integrate(now)
        self._devices += change

    def _integrate(self, now: int) -> None:
        # Compute ends on its schedule, communication when it is seen: now and then one is told after a later other.
        span = now - self._at
        if span <= 0:
            return
        self._at = now
        if self._devices:
            self.compute_ns += span
            if self._communications:
                self.overlap_ns += span
        if self._communications:
            self.communication_ns += span
