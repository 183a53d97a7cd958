"""How much may be on its way: all that the settings allow while nothing is lost, less where something is.

Go-back-N throws away what was under way behind a loss: at a loss rate p a share of about p · window goes again. The
window therefore halves with every loss and grows in proportion to what is acknowledged, which keeps it near 1 / (8 p)
packets, and what goes again near an eighth.

Hardware has no such window: there it is the path's bandwidth times its delay, a few dozen packets. A round trip between
sockets is a hundred times as long, and would make go-back-N look as it does on no NIC.
"""

from __future__ import annotations

from emulator.roce.tuning import (
    LEAST_PACKETS_AFTER_LOSS,
    LEAST_WINDOW_BYTES,
    MOST_PACKETS_AFTER_LOSS,
    MOST_WINDOW_BYTES,
    WINDOW_GROWTH,
)


def window_bytes(buffer_bytes: int, *, peers: int) -> int:
    """Payload that a queue pair may have on its way if no window is requested.

    The windows of all peers fit the receiver's socket buffer of `buffer_bytes`. With many peers they are larger than
    that: else each would have little, and little is lost unless all send to one rank at once.
    """
    fair = min(MOST_WINDOW_BYTES, max(LEAST_WINDOW_BYTES, buffer_bytes // max(1, peers)))
    return min(fair, buffer_bytes // 2)


class SendWindow:
    """The window of one requester.

    Args:
        most: packets, as long as nothing is lost.
        ack_interval: packets between two requests for an acknowledgement, as long as nothing is lost.
        smallest_run: see ConnectionSettings.
    """

    __slots__ = (
        "_ack_interval",
        "_credit",
        "_most",
        "_opened",
        "_reduced_to",
        "_smallest_run",
        "ack_interval",
        "is_reduced",
        "packets",
        "smallest_run",
    )

    def __init__(self, most: int, *, ack_interval: int, smallest_run: int) -> None:
        self._most, self._ack_interval, self._smallest_run = most, ack_interval, smallest_run
        self._reduced_to = most
        self.packets = most
        """How many packets may be on their way."""
        self._credit = 0  # packets acknowledged that have not made it grow yet
        self._opened = 0  # packets beyond it, since the last acknowledgement
        self.is_reduced = False
        """Whether losses hold it down."""
        self.ack_interval = ack_interval
        self.smallest_run = smallest_run

    def lost(self) -> None:
        """Something was lost, and what came behind it reported it."""
        self._resize(min(self._reduced_to // 2, MOST_PACKETS_AFTER_LOSS))

    def fell_silent(self) -> None:
        """Nothing was heard for a whole timeout: all that is on its way may be lost, or be there already."""
        self._resize(LEAST_PACKETS_AFTER_LOSS)

    def acknowledged(self, packets: int) -> None:
        """So many packets more are at the peer. Only to be told where `is_reduced`."""
        grown, self._credit = divmod(self._credit + packets, WINDOW_GROWTH)
        if grown or self._opened:
            self._resize(self._reduced_to + grown)

    def open(self) -> bool:
        """Nothing was heard for a while: let a little more go, twice the window at most; whether it did."""
        if not self.is_reduced or self._opened >= self._reduced_to:
            return False
        self._opened += self.ack_interval
        self.packets = min(self._most, self._reduced_to + self._opened)
        return True

    def _resize(self, packets: int) -> None:
        """Where it is small, several packets of it ask for an acknowledgement: one that is lost must not stop it."""
        self.packets = self._reduced_to = packets = min(self._most, max(LEAST_PACKETS_AFTER_LOSS, packets))
        self._opened = 0
        self.is_reduced = packets < self._most
        if self.is_reduced:
            self.ack_interval = min(self._ack_interval, max(1, packets // 4))
            self.smallest_run = min(self._smallest_run, max(1, packets // 8))
        else:
            self.ack_interval, self.smallest_run = self._ack_interval, self._smallest_run
