"""Frames on links, for the packet simulation: a queue at every link, whole frames at a time, in order of arrival."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Generic, Protocol, TypeVar

import numpy as np

from emulator.planner.network.arrays import FloatArray
from emulator.planner.network.routing import Router
from emulator.units import BITS_PER_BYTE, NS_PER_S


class UnknownTime(Exception):
    """The simulation does not apply, or would take too long."""


class Frame(Protocol):
    """A frame on its way.

    Attributes:
        bytes: length on the wire.
        path: directed links; empty within a host.
        hop: index in `path` of the link that it waits for or is on.
    """

    bytes: int
    path: Sequence[int]
    hop: int


F = TypeVar("F", bound=Frame)


class LinkFacts:
    """Rate, latency and queue of every directed link; the topology that they belong to."""

    def __init__(self, router: Router, rate_bps: FloatArray) -> None:
        paths = router.paths
        network = paths.network
        self._router, self.topology = router, router.topology
        self.byte_ns = (BITS_PER_BYTE * NS_PER_S / rate_bps).tolist()
        self.latency_ns = [link.latency_ns or 0 for link in network.links for _ in range(2)]
        queue_bytes = {switch.name: switch.queue_bytes for switch in network.switches}
        self.queue_bytes = [queue_bytes.get(paths.node_name(node)) for node in paths.source.tolist()]

    def path(self, sender: int, receiver: int) -> Sequence[int]:
        """Directed links from one rank to another; empty within a host.

        Raises:
            UnknownTime: a link has no rate.
        """
        one, other = np.array([sender]), np.array([receiver])
        if not self._router.remote(one, other)[0]:
            return ()
        out, *into = (crossing.links for crossing in self._router.edges(one, other))
        between = (crossing.links for crossing in self._router.hashed(one, other))
        links: list[int] = np.concatenate([out, *between, *into]).tolist()
        if any(np.isnan(self.byte_ns[link]) for link in links):
            raise UnknownTime
        return links


class _Queue(Generic[F]):
    __slots__ = ("bytes", "frames", "is_busy")

    def __init__(self) -> None:
        self.frames: deque[F] = deque()
        self.bytes, self.is_busy = 0, False


class LinkQueues(Generic[F]):
    """Moves frames along their paths, event by event.

    Args:
        next_frame: returns a new frame for a link that has become idle, or None.
        arrive: receives every frame that has reached the end of its path.

    Attributes:
        now_ns: simulated time.
        walked: frames times links so far.
    """

    def __init__(
        self,
        facts: LinkFacts,
        *,
        next_frame: Callable[[int], F | None],
        arrive: Callable[[F], None],
        most_frames: int,
    ) -> None:
        self._facts, self._next_frame, self._arrive, self._most_frames = facts, next_frame, arrive, most_frames
        self._queues: dict[int, _Queue[F]] = {}
        self._events: list[tuple[float, int, int, F]] = []  # time, order, link that has sent the frame or -1, frame
        self._order = 0
        self.now_ns = 0.0
        self.walked = 0

    def run(self) -> None:
        """Run until no frame is on its way.

        Raises:
            UnknownTime: a queue overflows, or there are too many frames.
        """
        while self._events:
            self.now_ns, _, link, frame = heappop(self._events)
            if link >= 0:
                self._leave(link, frame)
            else:
                self._forward(frame)

    def send(self, frame: F) -> None:
        """Put a frame on its path; within a host it arrives at once."""
        if frame.path:
            self._enter(frame)
        else:
            self._schedule(self.now_ns, -1, frame)

    def wake_at(self, at_ns: float, frame: F) -> None:
        """Let a frame without a path arrive at a time."""
        self._schedule(at_ns, -1, frame)

    def wake(self, link: int) -> None:
        """Ask for a new frame for a link, unless it is busy."""
        queue = self._queue(link)
        if not queue.is_busy:
            self._serve(link, queue)

    def _schedule(self, at_ns: float, link: int, frame: F) -> None:
        self._order += 1
        heappush(self._events, (at_ns, self._order, link, frame))

    def _queue(self, link: int) -> _Queue[F]:
        if link not in self._queues:
            self._queues[link] = _Queue()
        return self._queues[link]

    def _forward(self, frame: F) -> None:
        if frame.hop < len(frame.path):
            self._enter(frame)
        else:
            self._arrive(frame)

    def _enter(self, frame: F) -> None:
        link = frame.path[frame.hop]
        queue = self._queue(link)
        queue.frames.append(frame)
        queue.bytes += frame.bytes
        depth = self._facts.queue_bytes[link]
        if depth is not None and queue.bytes > depth:
            raise UnknownTime
        if not queue.is_busy:
            self._serve(link, queue)

    def _serve(self, link: int, queue: _Queue[F]) -> None:
        """Send the next frame: those that wait in the queue come before new ones."""
        frame: F | None
        if queue.frames:
            frame = queue.frames.popleft()
            queue.bytes -= frame.bytes
        else:
            frame = self._next_frame(link)
        queue.is_busy = frame is not None
        if frame is None:
            return
        self.walked += 1
        if self.walked > self._most_frames:
            raise UnknownTime
        self._schedule(self.now_ns + frame.bytes * self._facts.byte_ns[link], link, frame)

    def _leave(self, link: int, frame: F) -> None:
        self._serve(link, self._queues[link])
        frame.hop += 1
        latency_ns = self._facts.latency_ns[link]
        if latency_ns:
            self._schedule(self.now_ns + latency_ns, -1, frame)
        else:
            self._forward(frame)
