"""The window of a rank: the nodes of its program that have been delivered and are not complete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from emulator.planner.rank_program import Chunk, PlannedCommunication
from emulator.trace.meaning.model import Resource

REMEMBERED_ENDS = 4096
"""How many of the newest complete nodes have an exact end; older ones share the latest end among them."""

_NETWORK: Final = int(Resource.NETWORK)


class WindowNode:
    """A node in the window: `waiting` counts incomplete dependencies, `ready_ns` is the latest end of complete ones."""

    __slots__ = ("communication", "dependents", "duration_ns", "node_id", "position", "ready_ns", "resource", "waiting")

    def __init__(self, position: int, node_id: int, resource: int, duration_ns: int) -> None:
        self.position = position
        self.node_id = node_id
        self.resource = resource
        self.duration_ns = duration_ns
        self.waiting = 0
        self.ready_ns = 0
        self.dependents: list[WindowNode] = []
        self.communication: PlannedCommunication | None = None


class Window:
    """Positions arrive in order; a dependency that has left the window is complete.

    Its end still counts: a node may be delivered long before or long after its dependencies end.

    Args:
        nodes: length of the program.
        is_resident: keep the program, which is delivered as a whole before anything of it is complete; see `rewind`.
        most_ends: that are remembered.

    Attributes:
        delivered: positions delivered in this iteration.
        completed: how many of those are complete.
    """

    __slots__ = (
        "_ends", "_is_resident", "_length", "_most_ends", "_nodes", "_older_end_ns", "_program",
        "completed", "delivered",
    )  # fmt: skip

    def __init__(self, nodes: int, *, is_resident: bool = False, most_ends: int = REMEMBERED_ENDS) -> None:
        self._length, self._is_resident, self._most_ends = nodes, is_resident, most_ends
        self._program: list[tuple[WindowNode, int]] = []  # and how many dependencies each waits for at first
        self._nodes: dict[int, WindowNode] = {}
        self._ends: dict[int, int] = {}  # position → end, in order of completion
        self._older_end_ns = 0  # the latest end of complete nodes that are no longer in _ends
        self.delivered = 0
        self.completed = 0

    def deliver(self, chunk: Chunk) -> Iterator[WindowNode]:
        """Add a chunk; yields its nodes, with `waiting` counting the dependencies that are incomplete now."""
        distances = chunk.distance.tolist()
        first = 0
        durations = chunk.duration_ns.tolist()
        rows = zip(chunk.node_id.tolist(), chunk.resource.tolist(), durations, chunk.dependencies.tolist(), strict=True)
        for position, (node_id, resource, duration, dependencies) in enumerate(rows, chunk.first_position):
            node = WindowNode(position, node_id, resource, duration)
            if resource == _NETWORK:
                node.communication = chunk.communications[position]
            for distance in distances[first : first + dependencies]:
                blocker = self._nodes.get(position - distance)
                if blocker is None:
                    node.ready_ns = max(node.ready_ns, self._ends.get(position - distance, self._older_end_ns))
                else:
                    blocker.dependents.append(node)
                    node.waiting += 1
            first += dependencies
            self._nodes[position] = node
            if self._is_resident:
                self._program.append((node, node.waiting))
            self.delivered += 1
            yield node

    def complete(self, node: WindowNode, now: int) -> Iterator[WindowNode]:
        """Complete a node; yields the nodes that this makes ready, with ready_ns set."""
        del self._nodes[node.position]
        self.completed += 1
        if self.delivered < self._length:
            self._remember(node.position, now)
        for dependent in node.dependents:
            dependent.waiting -= 1
            if now > dependent.ready_ns:
                dependent.ready_ns = now
            if not dependent.waiting:
                yield dependent

    def clear(self) -> None:
        """Empty the window and return to the beginning of the program."""
        self._nodes.clear()
        self._ends.clear()
        self._older_end_ns = 0
        self.delivered = self.completed = 0

    def rewind(self) -> Iterator[WindowNode]:
        """Deliver a resident program again, to an empty window; yields its nodes."""
        for node, waiting in self._program:
            node.waiting, node.ready_ns = waiting, 0
            self._nodes[node.position] = node
            yield node
        self.delivered = len(self._program)

    def _remember(self, position: int, end_ns: int) -> None:
        self._ends[position] = end_ns
        if len(self._ends) > self._most_ends:
            oldest = self._ends.pop(next(iter(self._ends)))
            self._older_end_ns = max(self._older_end_ns, oldest)
