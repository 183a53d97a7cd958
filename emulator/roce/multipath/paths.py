"""The paths of a queue pair as its sender sees them: one per entropy value, with a window and a health of its own.

A switch hashes the entropy value, so all packets with one value take one path and stay in order on it. That makes a
loss visible at once: what was sent on a path before something that has arrived, and has not arrived, is lost.

The window of a path follows losses, trimmed packets and congestion marks on it (multiplicative decrease, once a round
trip; additive increase). A path that loses everything, or is silent while others answer, is retired: nothing more is
sent on it until a probe, an empty WRITE, comes through.

Source: RFC 9002, section 6.1.1 (packet threshold); RFC 8312, section 4.5 (decrease by 0.7).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

IntColumn = npt.NDArray[np.int64]

REORDER_PACKETS = 3
"""So many later packets of a path must have arrived before one counts as lost. Source: RFC 9002, kPacketThreshold."""
DECREASE = 0.7
LEAST_WINDOW = 4.0
LOSSES_TO_RETIRE = 8
"""Losses of a path in a row, with nothing arriving between them."""
LEAST_SILENCE_NS, SILENCE_RTTS = 20_000_000, 2
"""A path is silent if nothing on it was acknowledged for so long, although others were."""
FIRST_REST_NS, LONGEST_REST_NS = 50_000_000, 400_000_000
"""How long a retired path rests before it is probed; twice as long after every probe that is lost."""


@dataclass(slots=True, eq=False)
class Health:
    """Which paths to a peer carry packets; the queue pairs to it share this, as they share the entropy values.

    Attributes:
        probe_ns: by path: when to probe it; 0: it is in use.
        retirements: by path: how often it was retired.
    """

    values: int
    probe_ns: list[int] = field(init=False)
    retirements: list[int] = field(init=False)
    _rest_ns: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.probe_ns, self.retirements = [0] * self.values, [0] * self.values
        self._rest_ns = [FIRST_REST_NS] * self.values

    @property
    def in_use(self) -> list[int]:
        """The paths in use; at least one is."""
        return [path for path, at in enumerate(self.probe_ns) if not at]

    def retire(self, path: int, now: int) -> bool:
        """Stop using a path, unless it is the last one; returns whether it was in use and is not any more."""
        if self.probe_ns[path] or len(self.in_use) == 1:
            return False
        self.retirements[path] += 1
        self._rest(path, now)
        return True

    def due(self, now: int) -> list[int]:
        """The paths to probe now; each rests again, for longer, unless the probe is answered."""
        found = [path for path, at in enumerate(self.probe_ns) if at and now >= at]
        for path in found:
            self._rest(path, now)
        return found

    def _rest(self, path: int, now: int) -> None:
        self.probe_ns[path] = now + self._rest_ns[path]
        self._rest_ns[path] = min(LONGEST_REST_NS, 2 * self._rest_ns[path])

    def answered(self, path: int) -> bool:
        """A probe of a path was answered; returns whether it had been retired."""
        was_retired = self.probe_ns[path] > 0
        self.probe_ns[path] = 0
        return was_retired

    def proved(self, path: int) -> None:
        """A path has carried payload: the next time it is retired, it rests for the shortest time."""
        self._rest_ns[path] = FIRST_REST_NS


class PathColumns:
    """What a sender knows of each path; every column is int64 (`window`: float64) of shape (values,).

    Attributes:
        in_flight: packets sent and neither acknowledged nor lost.
        window: how many may be.
        sent, again: packets, and those of them that had been sent before.
        lost, trimmed, marked: packets.
        rtt_ns: smoothed; 0: not known.
        newest: the newest packet that was acknowledged, counted on the path.
        heard_ns: when a packet on it was last acknowledged, or when it began to be used after a pause.
        lost_in_row: since the last acknowledgement.
    """

    __slots__ = (
        "_most", "_peak", "_recovery", "again", "health", "heard_ns", "in_flight", "lost", "lost_in_row",
        "marked", "newest", "rtt_ns", "sent", "trimmed", "window",
    )  # fmt: skip

    def __init__(self, health: Health, *, most: int) -> None:
        def column() -> IntColumn:
            return np.zeros(health.values, np.int64)

        self.health, self._most = health, float(most)
        self.window = np.full(health.values, self._most)
        self.in_flight, self.sent, self.again, self.lost = column(), column(), column(), column()
        self.trimmed, self.marked, self.rtt_ns, self.heard_ns = column(), column(), column(), column()
        self.lost_in_row, self.newest, self._recovery, self._peak = column(), column() - 1, column(), column()

    def note_sent(self, path: int, packets: int, *, again: int, now: int) -> int:
        """Count packets that leave on a path; returns the number of the first, counted on the path."""
        if not self.in_flight[path]:
            self.heard_ns[path] = now
        first = int(self.sent[path])
        self.sent[path] += packets
        self.again[path] += again
        self.in_flight[path] += packets
        self._peak[path] = max(self._peak[path], self.in_flight[path])
        return first

    def note_acknowledged(self, paths: IntColumn, places: IntColumn, now: int) -> None:
        """Packets that were in flight have arrived: the path of each, and its number on it."""
        counts = np.bincount(paths, minlength=len(self.sent))
        heard = np.flatnonzero(counts)
        self.in_flight -= counts
        self.heard_ns[heard], self.lost_in_row[heard] = now, 0
        np.maximum.at(self.newest, paths, places)
        grown = self.window[heard] + counts[heard] / self.window[heard]
        self.window[heard] = np.minimum(grown, self._most)
        for path in heard.tolist():
            self.health.proved(path)

    def note_lost(self, path: int, packets: int, newest: int) -> None:
        """Packets of a path are lost, the newest of them with that number on it."""
        self.in_flight[path] -= packets
        self.lost[path] += packets
        self.lost_in_row[path] += packets
        self.slow_down(path, newest)

    def note_found(self, paths: IntColumn) -> None:
        """Packets that counted as lost, and were not sent again, have arrived: the path of each."""
        self.lost -= np.bincount(paths, minlength=len(self.lost))

    def slow_down(self, path: int, place: int) -> None:
        """Packet number `place` of a path met congestion: once for all that were in flight then."""
        if place >= self._recovery[path]:
            self._recovery[path] = self.sent[path]
            used = min(float(self.window[path]), float(self._peak[path]))
            self.window[path] = max(LEAST_WINDOW, DECREASE * used)
            self._peak[path] = self.in_flight[path]

    def note_rtt(self, path: int, sample_ns: int) -> None:
        """A round trip on a path took so long."""
        known = int(self.rtt_ns[path])
        self.rtt_ns[path] = sample_ns if not known else known + (sample_ns - known) // 8

    def silence_ns(self) -> int:
        """How long a path may say nothing, if others do."""
        return max(LEAST_SILENCE_NS, SILENCE_RTTS * int(self.rtt_ns.max(initial=0)))

    def losing(self, answered_ns: int) -> list[int]:
        """Paths that have lost everything of late, while others have carried packets; argument as for `silent`."""
        losing = (self.lost_in_row >= LOSSES_TO_RETIRE) & (answered_ns > self.heard_ns)
        found: list[int] = np.flatnonzero(losing).tolist()
        return found

    def silent(self, answered_ns: int, now: int) -> list[int]:
        """Paths with packets in flight that say nothing, although what was sent later elsewhere was answered.

        Args:
            answered_ns: when the newest packet was sent that is acknowledged.
            now: the time.
        """
        quiet = (self.in_flight > 0) & (now - self.heard_ns > self.silence_ns()) & (answered_ns > self.heard_ns)
        found: list[int] = np.flatnonzero(quiet).tolist()
        return found

    def room(self, path: int) -> int:
        """Packets that may go on a path now."""
        return int(self.window[path]) - int(self.in_flight[path])
