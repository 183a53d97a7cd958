"""The transfers of one rank in one collective or pair, as they happen.

A record stands between an execution and its endpoint: it sees every post, and the player passes on what comes back.
"""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence

from agents.play import tags
from agents.play.execution import Poster
from emulator.control.observations import RankSteps
from emulator.planner.schedule import Lane, Step

_Line = tuple[int, int]
"""(peer, lane): transfers in it are sent, acknowledged and received in order."""


class StepRecord:
    """Implements Poster.

    Args:
        endpoint: takes the transfers.
        now: of the player's clock.
        admit: called before a transfer is recorded; False: there is no room for it.

    Attributes:
        is_cut: a transfer was not recorded, so the record is worthless.
    """

    __slots__ = ("_admit", "_endpoint", "_now", "_received", "_sent", "_steps", "_unacknowledged", "is_cut")

    def __init__(self, endpoint: Poster, *, now: Callable[[], int], admit: Callable[[], bool]) -> None:
        self._endpoint, self._now, self._admit = endpoint, now, admit
        self._sent = [array("q") for _ in range(6)]
        self._received = [array("q") for _ in range(3)]
        self._steps: defaultdict[_Line, deque[int]] = defaultdict(deque)  # of sends that are not posted yet
        self._unacknowledged: defaultdict[_Line, deque[int]] = defaultdict(deque)  # rows
        self.is_cut = False

    @property
    def transfers(self) -> int:
        """How many transfers were sent and recorded."""
        return len(self._sent[0])

    def watched(self, lanes: Sequence[Lane], ranks: Sequence[int]) -> Sequence[Lane]:
        """The same lanes; the record learns which step a transfer belongs to.

        Args:
            lanes: of the member.
            ranks: world ranks by member number.
        """
        return [self._watched(number, lane, ranks) for number, lane in enumerate(lanes)]

    def _watched(self, number: int, lane: Lane, ranks: Sequence[int]) -> Iterator[Step]:
        for position, step in enumerate(lane):
            for transfer in step.sends:
                self._steps[ranks[transfer.peer], number].append(position)
            yield step

    def post(self, peer: int, tag: int, size: int) -> None:
        """Record a transfer of a collective, unless it is a credit, and hand it to the endpoint."""
        kind, lane, _ = tags.split(tag)
        if kind != tags.CREDIT:
            self.sent(peer, lane, self._steps[peer, lane].popleft(), size)
        self._endpoint.post(peer, tag, size)

    def sent(self, peer: int, lane: int, step: int, size: int) -> None:
        """A transfer is handed to the transport now."""
        if self.is_cut or not self._admit():
            self.is_cut = True
            return
        self._unacknowledged[peer, lane].append(len(self._sent[0]))
        for column, value in zip(self._sent, (peer, lane, step, size, self._now(), 0), strict=True):
            column.append(value)

    def acknowledged(self, peer: int, lane: int, at_ns: int) -> None:
        """The oldest unacknowledged transfer to rank `peer` in the lane is acknowledged."""
        rows = self._unacknowledged[peer, lane]
        if rows:  # else it was not recorded
            self._sent[-1][rows.popleft()] = at_ns

    def arrived(self, peer: int, lane: int, at_ns: int, count: int = 1) -> None:
        """`count` transfers from rank `peer` have arrived."""
        for column, value in zip(self._received, (peer, lane, at_ns), strict=True):
            column.extend([value] * count)

    def steps(self, *, iteration: int, instance: int, rank: int, node_id: int) -> RankSteps:
        """All of it."""
        return RankSteps(iteration, instance, rank, node_id, *self._sent, *self._received)
