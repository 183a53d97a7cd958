"""What queue pairs carried when: payload, congestion marks and retransmissions in bins of time.

Queue pairs count anyway. The first reception after the end of a bin writes what was counted since the one before into a
row, so a bin costs a comparison for each reception, and a row where something was carried.

Memory is bounded: when rows are many, bins become twice as long. That takes 0.06 s for half a million rows, so it
happens between iterations where that comes in time.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Final

import numpy as np

from emulator.control.observations import Timeline, TimelineFlow
from emulator.roce.connection.qp_facts import QpFacts
from emulator.roce.connection.queue_pair import QueuePair

_COLUMNS: Final = 5
_TIDY_SHARE: Final = 0.75
"""Of the memory: between iterations, bins become longer if rows take more."""
_KEPT_SHARE: Final = 0.625
"""Of the memory: rows take at most so much when bins have become longer. Flows that never pause then take half."""


class TimelineLog:
    """The rows of all queue pairs of a process.

    Args:
        bin_ns: length of a bin.

    Attributes:
        bin_ns: the present length.
        most_rows: that are kept, at least one for each flow.
    """

    def __init__(self, bin_ns: int) -> None:
        self.bin_ns, self.most_rows = bin_ns, 0
        self._rows = array("q")  # flow, start of the bin, bytes, retransmits, marks; and so on
        self._flows: dict[TimelineFlow, int] = {}  # each has up to two queue pairs here, if both ends are
        self._pairs: list[QueuePairBins] = []

    def follow(self, pair: QueuePair, facts: QpFacts, *, rank: int, peer: int) -> QueuePairBins:
        """The bins of a queue pair that has carried nothing yet, between `rank`, this end, and `peer`."""
        incoming = self._flows.setdefault(TimelineFlow(peer, rank, facts.qpn), len(self._flows))
        outgoing = self._flows.setdefault(TimelineFlow(rank, peer, facts.peer_qpn), len(self._flows))
        bins = QueuePairBins(self, pair, incoming, outgoing)
        self._pairs.append(bins)
        return bins

    def add(self, flow: int, start_ns: int, size: int, retransmits: int, marks: int) -> None:
        """A row: what a flow carried in a bin, or in a part of it."""
        self._rows.extend((flow, start_ns, size, retransmits, marks))
        self._make_room(1.0)

    def tidy(self) -> None:
        """Nothing is under way: make room for the next iteration."""
        self._make_room(_TIDY_SHARE)

    def _make_room(self, share: float) -> None:
        """Once rows take more than this share of the memory, join bins until they take little enough."""
        most = _COLUMNS * max(self.most_rows, 2 * len(self._flows))
        if len(self._rows) <= most * share:
            return
        while len(self._rows) > most * _KEPT_SHARE:
            self.bin_ns *= 2
            joined = self._timeline().in_bins_of(self.bin_ns)
            columns = (joined.flow, joined.start_ns, joined.bytes, joined.retransmits, joined.ecn_marks)
            self._rows = array("q", np.stack(columns, axis=1).tobytes())

    def _timeline(self) -> Timeline:
        rows = np.array(self._rows, np.int64).reshape(-1, _COLUMNS)
        return Timeline(self.bin_ns, list(self._flows), *rows.T)

    def report(self) -> Timeline:
        """All that was carried until now."""
        for pair in self._pairs:
            pair.close()
        return self._timeline().in_bins_of(self.bin_ns)


@dataclass(slots=True, eq=False)
class QueuePairBins:
    """Of a queue pair: both of its flows, by their numbers, each as far as this end counts it.

    The receiver counts payload as it takes it in order, and marks; the sender what it sends again.
    """

    log: TimelineLog
    pair: QueuePair
    incoming: int
    outgoing: int
    _start_ns: int = 0
    _bytes: int = 0
    _retransmits: int = 0
    _marks: int = 0

    def turn(self, now: int) -> int:
        """Begin the bin of `now`, before anything of it is counted; returns when it ends."""
        bin_ns = self.log.bin_ns
        start_ns = now - now % bin_ns
        self._start_ns = self._start_ns or start_ns
        self.close()
        self._start_ns = start_ns
        return start_ns + bin_ns

    def close(self) -> None:
        """Write down what was counted since the last call."""
        pair = self.pair
        size: int = pair.responder.taken_bytes
        marks: int = pair.ecn_marks
        retransmits: int = pair.requester.retransmits
        if size != self._bytes or marks != self._marks:
            self.log.add(self.incoming, self._start_ns, size - self._bytes, 0, marks - self._marks)
            self._bytes, self._marks = size, marks
        if retransmits != self._retransmits:
            self.log.add(self.outgoing, self._start_ns, 0, retransmits - self._retransmits, 0)
            self._retransmits = retransmits
