"""A pacer over runs: keeps the time before which nothing more may go."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.units import BITS_PER_BYTE, NS_PER_S


@dataclass(slots=True, eq=False)
class Pacer:
    """Spaces runs so that the mean rate holds whatever their sizes.

    Attributes:
        allowance_ns: how much lateness may be made up for. A timer that fires late costs nothing up to this, and no
            burst after a pause lasts longer than this at the rate.
        burst_ns: about how long a run should take at the rate: at low rates runs get short.
        next_ns: nothing may go before this.
    """

    allowance_ns: int = 1_000_000
    burst_ns: int = 1_000_000
    next_ns: int = 0

    def most_packets(self, *, rate_bps: float, packet_bytes: int, lead_ns: int = 0) -> int:
        """Packets that one run should have at most: at least one, more if it may go a long lead before its time."""
        span_ns = max(self.burst_ns, lead_ns)
        return max(1, int(rate_bps * span_ns) // (packet_bytes * BITS_PER_BYTE * NS_PER_S))

    def charge(self, size: int, *, rate_bps: float, now: int) -> int:
        """`size` bytes, headers included, were sent at `now`; returns how long they take at the rate, ns."""
        start, span_ns = max(self.next_ns, now - self.allowance_ns), round(size * BITS_PER_BYTE * NS_PER_S / rate_bps)
        self.next_ns = start + span_ns
        return span_ns
