"""How fast and how far ahead a queue pair may send: congestion control as it sees it, the port's cap, pacer and window.

Go-back-N discards what was in flight behind a loss: at a loss rate p, a share of about p · window is sent again. The
window therefore halves with every loss and grows in proportion to what is acknowledged, which keeps it near 1 / (8 p)
packets, and what is sent again near an eighth.

Hardware does not need this: its window is the path's bandwidth times its delay, a few dozen packets. A round trip
between sockets takes a hundred times as long, and would make go-back-N look worse than it does on any NIC.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

from emulator.roce.tuning import (
    LEAST_PACKETS_AFTER_LOSS,
    LEAST_WINDOW_BYTES,
    MOST_PACKETS_AFTER_LOSS,
    MOST_WINDOW_BYTES,
    WINDOW_GROWTH,
)
from emulator.units import BITS_PER_BYTE, NS_PER_S


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


NO_CAP: Final = -1


def port_cap_bps(requested_bps: int, port_rate_bps: int | None) -> int:
    """Most that all ranks at a port may send together, bit/s; 0: no cap.

    Args:
        requested_bps: requested by the user; 0: the port's rate; NO_CAP: no cap.
        port_rate_bps: None if not known.
    """
    if requested_bps == NO_CAP:
        return 0
    return min((rate for rate in (requested_bps, port_rate_bps) if rate), default=0)


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


def window_bytes(buffer_bytes: int, *, peers: int) -> int:
    """Payload that a queue pair may have in flight if no window is requested.

    The windows of all peers fit the receiver's socket buffer of `buffer_bytes`. With many peers they are larger than
    that: otherwise each would be small, and little is lost unless all send to one rank at once.
    """
    fair = min(MOST_WINDOW_BYTES, max(LEAST_WINDOW_BYTES, buffer_bytes // max(1, peers)))
    return min(fair, buffer_bytes // 2)


@dataclass(slots=True, eq=False)
class SendWindow:
    """The window of one requester.

    Attributes:
        most: packets, while nothing is lost.
        most_ack_interval: packets between two requests for an acknowledgement, while nothing is lost.
        most_per_run: ConnectionSettings.smallest_run, while nothing is lost.
        packets: how many may be in flight now.
        ack_interval, smallest_run: what holds now.
        is_reduced: whether losses hold the window down.
    """

    most: int
    most_ack_interval: int
    most_per_run: int
    packets: int = field(init=False)
    ack_interval: int = field(init=False)
    smallest_run: int = field(init=False)
    is_reduced: bool = False
    _reduced_to: int = field(init=False)
    _credit: int = 0  # packets acknowledged that have not made it grow yet
    _opened: int = 0  # packets beyond it, since the last acknowledgement

    def __post_init__(self) -> None:
        self._resize(self.most)

    def start(self, packets: int) -> None:
        """Begin with a window of that many packets, which grows while nothing is lost."""
        self._resize(packets)

    def lost(self) -> None:
        """A packet was lost, and a later one reported it."""
        self._resize(min(self._reduced_to // 2, MOST_PACKETS_AFTER_LOSS))

    def fell_silent(self) -> None:
        """A timeout passed without an answer: all packets in flight may be lost, or may have arrived."""
        self._resize(LEAST_PACKETS_AFTER_LOSS)

    def acknowledged(self, packets: int) -> None:
        """The peer has that many packets more. Call it only while `is_reduced`."""
        grown, self._credit = divmod(self._credit + packets, WINDOW_GROWTH)
        if grown or self._opened:
            self._resize(self._reduced_to + grown)

    def open(self) -> bool:
        """After a silence, let a little more go, twice the window at most; returns whether it did."""
        if not self.is_reduced or self._opened >= self._reduced_to:
            return False
        self._opened += self.ack_interval
        self.packets = min(self.most, self._reduced_to + self._opened)
        return True

    def _resize(self, packets: int) -> None:
        self.packets = self._reduced_to = packets = min(self.most, max(LEAST_PACKETS_AFTER_LOSS, packets))
        self._opened = 0
        self.is_reduced = packets < self.most
        self.ack_interval, self.smallest_run = self.most_ack_interval, self.most_per_run
        if self.is_reduced:  # several packets request an acknowledgement: losing one of them must not stop everything
            self.ack_interval = min(self.ack_interval, max(1, packets // 4))
            self.smallest_run = min(self.smallest_run, max(1, packets // 8))
