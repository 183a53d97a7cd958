"""How much may be in flight: the configured window while nothing is lost, less after losses.

Go-back-N discards what was in flight behind a loss: at a loss rate p, a share of about p · window is sent again. The
window therefore halves with every loss and grows in proportion to what is acknowledged, which keeps it near 1 / (8 p)
packets, and what is sent again near an eighth.

Hardware does not need this: its window is the path's bandwidth times its delay, a few dozen packets. A round trip
between sockets takes a hundred times as long, and would make go-back-N look worse than it does on any NIC.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from emulator.roce.tuning import (
    LEAST_PACKETS_AFTER_LOSS,
    LEAST_WINDOW_BYTES,
    MOST_PACKETS_AFTER_LOSS,
    MOST_WINDOW_BYTES,
    WINDOW_GROWTH,
)


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
