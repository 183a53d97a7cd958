"""The transfers of one rank in one collective or pair, as they happen.

A record stands between an execution and its endpoint: it sees every post, and the player passes on what comes back.
"""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence

from agents.play.execution import Poster
from agents.play.tags import CREDIT, LANE_MASK, LANE_SHIFT
from emulator.control.observations import RankSteps
from emulator.planner.schedule import Lane, Step, Transfer

_POST, _ACKNOWLEDGED = 5, 6
"""Columns of a transfer that was sent, see RankSteps."""
_LANE_BITS = LANE_MASK.bit_length()
_Row = list[int]


class _WatchedSends(tuple[Transfer, ...]):
    """The sends of a step. An execution goes through them once, when the step begins."""

    record: StepRecord
    place: tuple[int, int, Sequence[int]]
    """Lane, step, world ranks by member number."""

    def __iter__(self) -> Iterator[Transfer]:
        lane, step, ranks = self.place
        for peer, _, size in super().__iter__():
            self.record.begin(ranks[peer], lane, step, size)
        return super().__iter__()


class StepRecord:
    """Implements Poster.

    Args:
        endpoint: takes the transfers.
        now: of the player's clock.
        admit: called before a transfer is recorded; False: there is no room for it.

    Attributes:
        is_cut: a transfer was not recorded, so the record is worthless.
    """

    __slots__ = ("_admit", "_now", "_post", "_received", "_sent", "_unacknowledged", "_unposted", "is_cut")

    def __init__(self, endpoint: Poster, *, now: Callable[[], int], admit: Callable[[], bool]) -> None:
        self._post, self._now, self._admit = endpoint.post, now, admit
        self._sent: list[_Row] = []
        self._received: list[tuple[int, int, int]] = []
        # By peer and lane: transfers between two ranks in one lane are posted, acknowledged and received in order.
        self._unposted: defaultdict[int, deque[_Row]] = defaultdict(deque)
        self._unacknowledged: defaultdict[int, deque[_Row]] = defaultdict(deque)
        self.is_cut = False

    @property
    def transfers(self) -> int:
        """How many transfers were sent and recorded."""
        return len(self._sent)

    def watched(self, lanes: Sequence[Lane], ranks: Sequence[int]) -> Sequence[Lane]:
        """The same lanes; the record learns when a step begins.

        Args:
            lanes: of the member.
            ranks: world ranks by member number.
        """
        return [self._watched(number, lane, ranks) for number, lane in enumerate(lanes)]

    def _watched(self, number: int, lane: Lane, ranks: Sequence[int]) -> Iterator[Step]:
        for position, (sends, recvs, reduces) in enumerate(lane):
            watched = _WatchedSends(sends)
            watched.record, watched.place = self, (number, position, ranks)
            yield Step(watched, recvs, reduces)

    def begin(self, peer: int, lane: int, step: int, size: int) -> None:
        """What a transfer depends on has arrived."""
        if self.is_cut or not self._admit():
            self.is_cut = True
            return
        row = [peer, lane, step, size, self._now(), 0, 0]
        self._sent.append(row)
        self._unposted[peer << _LANE_BITS | lane].append(row)

    def post(self, peer: int, tag: int, size: int) -> None:
        """Hand a transfer of a collective, or a credit, to the endpoint."""
        if tag < CREDIT:
            self.posted(peer, tag >> LANE_SHIFT & LANE_MASK)
        self._post(peer, tag, size)

    def posted(self, peer: int, lane: int) -> None:
        """The oldest transfer to rank `peer` in the lane that waits for it is handed to the transport now."""
        line = peer << _LANE_BITS | lane
        if rows := self._unposted[line]:  # else it was not recorded
            row = rows.popleft()
            row[_POST] = self._now()
            self._unacknowledged[line].append(row)

    def acknowledged(self, peer: int, lane: int, at_ns: int) -> None:
        """The oldest unacknowledged transfer to rank `peer` in the lane is acknowledged."""
        if rows := self._unacknowledged[peer << _LANE_BITS | lane]:
            rows.popleft()[_ACKNOWLEDGED] = at_ns

    def arrived(self, peer: int, lane: int, at_ns: int, count: int = 1) -> None:
        """`count` transfers from rank `peer` have arrived."""
        self._received += [(peer, lane, at_ns)] * count

    def steps(self, *, iteration: int, instance: int, rank: int, node_id: int) -> RankSteps:
        """All of it."""
        sent = [array("q", column) for column in zip(*self._sent, strict=True)] or [array("q")] * 7
        received = [array("q", column) for column in zip(*self._received, strict=True)] or [array("q")] * 3
        return RankSteps(iteration, instance, rank, node_id, *sent, *received)
