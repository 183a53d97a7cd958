"""How a rank spent its time: device busy, communication under way, both."""

from __future__ import annotations


class Usage:
    """Integrates activity over time, in ns. Device = compute nodes that are no CPU operations, one at a time.

    Told in the order of time all three are exact. What is told late (a node that was delivered after it could have
    begun) counts as compute in full, and as overlap only from when it was told.
    """

    __slots__ = ("_at", "_communications", "_is_device_busy", "communication_ns", "compute_ns", "overlap_ns")

    def __init__(self, start_ns: int) -> None:
        self._at = start_ns
        self._communications = 0
        self._is_device_busy = False
        self.compute_ns = 0
        self.communication_ns = 0
        self.overlap_ns = 0

    def communication(self, change: int, now: int) -> None:
        """`change` more (or fewer) communications are under way from `now` on."""
        self._integrate(now)
        self._communications += change

    def device_begins(self, now: int) -> None:
        """A node begins on the device."""
        self._integrate(now)
        self._is_device_busy = True

    def device_ends(self, now: int, duration_ns: int) -> None:
        """The node on the device ends after `duration_ns`."""
        self._integrate(now)
        self._is_device_busy = False
        self.compute_ns += duration_ns

    def _integrate(self, now: int) -> None:
        span = now - self._at
        if span <= 0:
            return
        self._at = now
        if self._communications:
            self.communication_ns += span
            if self._is_device_busy:
                self.overlap_ns += span
