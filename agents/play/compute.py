"""Compute nodes as time: a resource that runs one node at a time on an exact schedule.

A node ends at its begin plus its duration, and the next node begins at that moment, even if the alarm comes late. Late
alarms delay the observation of a node, never the schedule: a thousand nodes of 2 µs take 2 ms, not a thousand wake-ups.

Usage counts how a rank spends its time: device busy, communication in progress, both.
"""

from __future__ import annotations

import heapq

from agents.play.window import WindowNode


class ComputeResource:
    """The CPU or the device of a rank: one node at a time, in the order they become ready, ties by node id.

    Attributes:
        running: the node that runs; None: idle.
        ends_ns: when the running node ends.
    """

    __slots__ = ("_free_ns", "_queue", "ends_ns", "running")

    def __init__(self) -> None:
        self._queue: list[tuple[int, int, int, WindowNode]] = []
        self._free_ns = 0
        self.running: WindowNode | None = None
        self.ends_ns = 0

    def enqueue(self, node: WindowNode) -> None:
        """Queue a node that is ready since node.ready_ns."""
        heapq.heappush(self._queue, (node.ready_ns, node.node_id, node.position, node))

    def begin_next(self) -> int | None:
        """Begin the next queued node if idle; returns when it begins, or None if no node begins."""
        if self.running is not None or not self._queue:
            return None
        ready_ns, _, _, node = heapq.heappop(self._queue)
        begin_ns = max(ready_ns, self._free_ns)
        self.running, self.ends_ns = node, begin_ns + node.duration_ns
        return begin_ns

    def end(self) -> WindowNode:
        """End the running node and return it."""
        node = self.running
        assert node is not None
        self.running, self._free_ns = None, self.ends_ns
        return node


class Usage:
    """Integrates activity over time, in ns. The device runs compute nodes that are not CPU operations, one at a time.

    All three sums are exact if events are reported in order of time. A node that is reported late (it was delivered
    after it could have begun) counts as compute in full, and as overlap only from its report on.

    Attributes:
        compute_ns: the device was busy.
        communication_ns: at least one communication was in progress.
        overlap_ns: both at once.
    """

    __slots__ = (
        "_at",
        "_communications",
        "_is_device_busy",
        "_spans",
        "communication_ns",
        "compute_ns",
        "overlap_ns",
    )

    def __init__(self, start_ns: int) -> None:
        self._at = start_ns
        self._communications = 0
        self._is_device_busy = False
        self.compute_ns = 0
        self.communication_ns = 0
        self.overlap_ns = 0
        self._spans: list[tuple[int, int]] = []

    def communication(self, change: int, now: int) -> None:
        """`change` more (or fewer, if negative) communications are in progress from `now` on."""
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
        self._add_span(now - duration_ns, now)

    @property
    def spans(self) -> int:
        """How many spans `take_spans` would return."""
        return len(self._spans)

    def take_spans(self) -> list[tuple[int, int]]:
        """(start, end) of the busy spans of the device that were not taken yet; adjacent nodes form one span."""
        taken, self._spans = self._spans, []
        return taken

    def resume_span(self, span: tuple[int, int]) -> None:
        """Put the last span back: the next node may extend it."""
        self._spans.insert(0, span)

    def _add_span(self, start: int, end: int) -> None:
        spans = self._spans
        if spans and spans[-1][1] == start:
            spans[-1] = (spans[-1][0], end)
        elif end > start:
            spans.append((start, end))

    def _integrate(self, now: int) -> None:
        span = now - self._at
        if span <= 0:
            return
        self._at = now
        if self._communications:
            self.communication_ns += span
            if self._is_device_busy:
                self.overlap_ns += span
