"""Compute nodes as time: a resource that runs one node at a time on an exact schedule.

A node ends at its begin plus its duration, and the next node begins at that moment, even if the alarm comes late. Late
alarms delay the observation of a node, never the schedule: a thousand nodes of 2 µs take 2 ms, not a thousand wake-ups.
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
