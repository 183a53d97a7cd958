"""Compute as time: one resource that runs a node after the other on an exact schedule.

A node's end is its begin plus its duration, and the next begins there, however late anybody looks: lateness of alarms
delays what is observed, never what follows, so that a thousand nodes of 2 µs take 2 ms and not a thousand wake-ups.
"""

from __future__ import annotations

import heapq

from agents.play.window import Node


class ComputeResource:
    """The CPU or the device of a rank: one node at a time, in ready order, ties by node id."""

    __slots__ = ("_free_ns", "_queue", "ends_ns", "running")

    def __init__(self) -> None:
        self._queue: list[tuple[int, int, Node]] = []
        self._free_ns = 0
        self.running: Node | None = None
        self.ends_ns = 0

    def enqueue(self, node: Node) -> None:
        """The node is ready since node.ready_ns."""
        heapq.heappush(self._queue, (node.ready_ns, node.node_id, node))

    def begin_next(self) -> int | None:
        """Begin the next waiting node if idle; returns when it begins, None if nothing begins."""
        if self.running is not None or not self._queue:
            return None
        ready_ns, _, node = heapq.heappop(self._queue)
        begin_ns = max(ready_ns, self._free_ns)
        self.running, self.ends_ns = node, begin_ns + node.duration_ns
        return begin_ns

    def end(self) -> Node:
        """The running node has ended; returns it."""
        node = self.running
        assert node is not None
        self.running, self._free_ns = None, self.ends_ns
        return node
