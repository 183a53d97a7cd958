"""Equal-cost next hops of many flows at once, looked up in one flat list of links."""

from __future__ import annotations

import numpy as np

from emulator.topology.paths import Paths
from emulator.trace.meaning.model import IntArray


class NextHopTable:
    """Next hops towards the switches looked up so far, and those of explicit routes.

    Attributes:
        links: directed links, next hops of one switch and destination in a row.
    """

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._row = np.full(paths.switches, -1, dtype=np.int64)
        self._first = np.zeros((0, paths.switches + 1), dtype=np.int64)
        pinned = sorted(paths.pinned.items())
        self._pins = np.array([switch * paths.ports + port for (switch, port), _ in pinned], dtype=np.int64)
        self._pin_count = np.array([len(links) for _, links in pinned], dtype=np.int64)
        self._pin_first = np.concatenate([[0], np.cumsum(self._pin_count)])[:-1].astype(np.int64)
        self.links = np.array([link for _, links in pinned for link in links], dtype=np.int64)

    def find(self, here: IntArray, port: IntArray, last: IntArray) -> tuple[IntArray, IntArray]:
        """Next hops of flows, as slices `links[first:first + count]`.

        Args:
            here: the switch that each flow is at.
            port: the host port that it goes to.
            last: the switch that this port is connected to.

        Returns:
            (first, count), int64, shape (flows,); count 0 if there is no path.
        """
        self._learn(np.flatnonzero(np.bincount(last, minlength=len(self._row))))
        row = self._row[last]
        first = self._first[row, here]
        count = self._first[row, here + 1] - first
        if len(self._pins):
            key = here * self._paths.ports + port
            at = np.minimum(np.searchsorted(self._pins, key), len(self._pins) - 1)
            hit = self._pins[at] == key
            first, count = np.where(hit, self._pin_first[at], first), np.where(hit, self._pin_count[at], count)
        return first, count

    def _learn(self, switches: IntArray) -> None:
        new = [switch for switch in switches.tolist() if self._row[switch] < 0]
        if not new:
            return
        rows, links, length = [self._first], [self.links], len(self.links)
        for switch in new:
            towards = self._paths.towards(switch)
            self._row[switch] = len(self._first) + len(rows) - 1
            rows.append((towards.first + length)[None, :])
            links.append(towards.links)
            length += len(towards.links)
        self._first, self.links = np.concatenate(rows), np.concatenate(links)
