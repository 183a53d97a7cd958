"""The transfers of one rank in one collective or pair, as they happen.

A record stands between an execution and its endpoint: it sees every post, and the player passes on what comes back.
"""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from agents.play import tags
from agents.play.execution import Poster
from emulator.control.observations import RankSteps
from emulator.planner.schedule import Lane, Step, Transfer

_POST, _ACKNOWLEDGED = 5, 6
"""Columns of what was sent, see RankSteps."""
_Line = tuple[int, int]
"""(peer, lane): transfers in it are sent, acknowledged and received in order."""


class _WatchedSends(tuple[Transfer, ...]):
    """The sends of a step. An execution goes through them once, when the step begins."""

    begin: Callable[[], None]

    def __iter__(self) -> Iterator[Transfer]:
        self.begin()
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

    __slots__ = ("_admit", "_endpoint", "_now", "_received", "_sent", "_unacknowledged", "_unposted", "is_cut")

    def __init__(self, endpoint: Poster, *, now: Callable[[], int], admit: Callable[[], bool]) -> None:
        self._endpoint, self._now, self._admit = endpoint, now, admit
        self._sent = [array("q") for _ in range(7)]
        self._received = [array("q") for _ in range(3)]
        self._unposted: defaultdict[_Line, deque[int]] = defaultdict(deque)  # rows
        self._unacknowledged: defaultdict[_Line, deque[int]] = defaultdict(deque)
        self.is_cut = False

    @property
    def transfers(self) -> int:
        """How many transfers were sent and recorded."""
        return len(self._sent[0])

    def watched(self, lanes: Sequence[Lane], ranks: Sequence[int]) -> Sequence[Lane]:
        """The same lanes; the record learns when a step begins.

        Args:
            lanes: of the member.
            ranks: world ranks by member number.
        """
        return [self._watched(number, lane, ranks) for number, lane in enumerate(lanes)]

    def _watched(self, number: int, lane: Lane, ranks: Sequence[int]) -> Iterator[Step]:
        for position, step in enumerate(lane):
            sends = _WatchedSends(step.sends)
            sends.begin = partial(self._begin, number, position, [(ranks[peer], size) for peer, _, size in step.sends])
            yield step._replace(sends=sends)

    def _begin(self, lane: int, step: int, sends: Sequence[tuple[int, int]]) -> None:
        for peer, size in sends:
            self.begin(peer, lane, step, size)

    def begin(self, peer: int, lane: int, step: int, size: int) -> None:
        """What a transfer depends on has arrived."""
        if self.is_cut or not self._admit():
            self.is_cut = True
            return
        self._unposted[peer, lane].append(len(self._sent[0]))
        for column, value in zip(self._sent, (peer, lane, step, size, self._now(), 0, 0), strict=True):
            column.append(value)

    def post(self, peer: int, tag: int, size: int) -> None:
        """Hand a transfer of a collective, or a credit, to the endpoint."""
        kind, lane, _ = tags.split(tag)
        if kind != tags.CREDIT:
            self.posted(peer, lane)
        self._endpoint.post(peer, tag, size)

    def posted(self, peer: int, lane: int) -> None:
        """The oldest transfer to rank `peer` in the lane that waits for it is handed to the transport now."""
        rows = self._unposted[peer, lane]
        if rows:  # else it was not recorded
            self._sent[_POST][rows[0]] = self._now()
            self._unacknowledged[peer, lane].append(rows.popleft())

    def acknowledged(self, peer: int, lane: int, at_ns: int) -> None:
        """The oldest unacknowledged transfer to rank `peer` in the lane is acknowledged."""
        rows = self._unacknowledged[peer, lane]
        if rows:
            self._sent[_ACKNOWLEDGED][rows.popleft()] = at_ns

    def arrived(self, peer: int, lane: int, at_ns: int, count: int = 1) -> None:
        """`count` transfers from rank `peer` have arrived."""
        for column, value in zip(self._received, (peer, lane, at_ns), strict=True):
            column.extend([value] * count)

    def steps(self, *, iteration: int, instance: int, rank: int, node_id: int) -> RankSteps:
        """All of it."""
        return RankSteps(iteration, instance, rank, node_id, *self._sent, *self._received)
