"""An endpoint of a storage host: takes what ranks write, and sends what they ask for.

It plays no trace. A rank asks for a read with the receiver-ready tag of the operation, and the payload goes back under
the tag of a send-receive pair.
"""

from __future__ import annotations

from collections.abc import Callable

from agents.play import tags
from agents.transports.base import Endpoint
from emulator.errors import LocalProtocolError
from emulator.planner.rank_program import Chunk, PlannedCommunication


class StorageEndpoint:
    """Implements EndpointEvents.

    Args:
        endpoint: carries the transfers.
        instances: operations of an iteration; see PlaySettings.
        nodes: reads that it must know of before it is ready.
        failed: called with (own number, peer, reason) if a rank cannot be reached.
    """

    def __init__(
        self, endpoint: Endpoint, *, instances: int, nodes: int, failed: Callable[[int, int, str], None]
    ) -> None:
        self._endpoint, self._instances, self._nodes, self._failed = endpoint, instances, nodes, failed
        self._reads: dict[int, PlannedCommunication] = {}  # by instance

    @property
    def is_ready(self) -> bool:
        """It knows of every read."""
        return len(self._reads) == self._nodes

    def deliver(self, chunk: Chunk) -> None:
        """Take further reads."""
        self._reads.update({one.instance: one for one in chunk.communications.values()})

    def arrived(self, peer: int, tag: int, size: int, now: int, count: int = 1) -> None:
        """See EndpointEvents. A request is answered at once; what was written needs nothing more."""
        kind, _, serial = tags.split(tag)
        if kind != tags.CREDIT:
            return
        read = self._reads.get(serial % self._instances)
        if read is None or read.peer != peer:
            raise LocalProtocolError(f"rank {peer} asks storage endpoint {self._endpoint.rank} for an unknown read")
        self._endpoint.post(peer, tags.pair_tag(serial), read.size_bytes)
        self._endpoint.flush()

    def acknowledged(self, peer: int, tag: int, now: int) -> None:
        """See EndpointEvents. The rank that reads knows when it is done."""

    def failed(self, peer: int, reason: str) -> None:
        """See EndpointEvents."""
        own = self._endpoint.rank
        self._failed(own, peer, f"transfers between storage endpoint {own} and rank {peer} failed: {reason}")
