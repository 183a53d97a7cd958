"""A rank's program on its way to its agent: chunks of nodes, never more than the agent has room for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from emulator.planner.rank_program import Chunk, PlannedCommunication
from emulator.trace.meaning.model import Communication, IdArray, IntArray, RankProgram

CHUNK_NODES = 512


class ProgramStream:
    """Sends one program again and again, once an iteration.

    Args:
        program: what to send.
        node_id: shape (n,): node ids by position.
        window: nodes the agent may hold that are not complete.
        algorithm_of: index of the algorithm that plays a communication.
    """

    def __init__(
        self,
        program: RankProgram,
        node_id: IdArray,
        *,
        window: int,
        algorithm_of: Callable[[Communication], int],
    ) -> None:
        self._program, self._node_id, self._algorithm_of = program, node_id, algorithm_of
        self._positions = sorted(program.communications)
        self._next = self._next_communication = 0
        self._room = self._window = window

    @property
    def rank(self) -> int:
        """Whose program it is."""
        return self._program.rank

    @property
    def is_resident(self) -> bool:
        """The agent can hold the whole program, and keeps it."""
        return len(self._program) <= self._window

    def rewind(self) -> None:
        """Begin again: the agent has completed everything."""
        self._next = self._next_communication = 0
        self._room = self._window

    def grant(self, nodes: int) -> None:
        """The agent has room for so many more."""
        self._room += nodes

    def chunks(self) -> Iterator[Chunk]:
        """What may be sent now."""
        while self._room > 0 and self._next < len(self._program):
            size = min(self._room, CHUNK_NODES, len(self._program) - self._next)
            chunk = self._cut(self._next, self._next + size)
            self._next += size
            self._room -= size
            yield chunk

    def _cut(self, first: int, end: int) -> Chunk:
        program = self._program
        offsets = program.dep_offset[first : end + 1]
        dependencies = np.diff(offsets)
        own = np.repeat(np.arange(first, end, dtype=np.int64), dependencies)
        distance: IntArray = own - program.dep_position[offsets[0] : offsets[-1]]
        return Chunk(
            rank=program.rank,
            first_position=first,
            node_id=self._node_id[first:end],
            resource=program.resource[first:end].astype(np.uint32),
            duration_ns=program.duration_ns[first:end].astype(np.uint64),
            dependencies=dependencies.astype(np.uint32),
            distance=distance.astype(np.uint64),
            communications=dict(self._communications_before(end)),
        )

    def _communications_before(self, end: int) -> Iterator[tuple[int, PlannedCommunication]]:
        while self._next_communication < len(self._positions) and self._positions[self._next_communication] < end:
            position = self._positions[self._next_communication]
            self._next_communication += 1
            communication = self._program.communications[position]
            yield position, self._planned(communication)

    def _planned(self, communication: Communication) -> PlannedCommunication:
        return PlannedCommunication(
            kind=communication.kind,
            group=communication.group,
            size_bytes=communication.size_bytes,
            instance=communication.instance,
            peer=communication.peer,
            root=communication.root,
            algorithm=self._algorithm_of(communication),
            send_splits=communication.send_splits,
            recv_splits=communication.recv_splits,
        )
