"""Message depth of a collective: the longest chain of messages that follow one another."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

from emulator.errors import PlanError
from emulator.planner.algorithms import schedule
from emulator.planner.schedule import Collective, Step


def message_depth(algorithm: str, members: Sequence[Collective]) -> int:
    """Length of the longest chain of transfers in which each waits for the previous one.

    Examples: 2(n - 1) for a ring all-reduce of n members, 1 per phase for direct, the height of a tree.

    Args:
        members: the collective as each member sees it, in group order.

    Raises:
        PlanError: the collective has no such algorithm, or a receive of the algorithm has no matching send.
    """
    plays = [
        _LanePlay(member=number, lane=lane, steps=list(steps))
        for number, view in enumerate(members)
        for lane, steps in enumerate(schedule(algorithm, view))
    ]
    arrivals: _Arrivals = defaultdict(deque)
    waiting = plays
    while waiting:
        left = [play for play in waiting if not play.advance(arrivals)]
        if len(left) == len(waiting) and not any(play.moved for play in waiting):
            raise PlanError(f"{algorithm} waits for transfers that no member sends")
        waiting = left
    return max((play.depth for play in plays), default=0)


_Arrivals = defaultdict[tuple[int, int, int], deque[int]]
"""(sender, receiver, lane) → depths of the transfers on their way, in order."""


class _LanePlay:
    """A lane of one member; `depth` transfers followed one another up to its current step."""

    def __init__(self, *, member: int, lane: int, steps: Sequence[Step]) -> None:
        self._member, self._lane, self._steps = member, lane, steps
        self._next = 0
        self._is_sent = False
        self.depth = 0
        self.moved = False

    def advance(self, arrivals: _Arrivals) -> bool:
        """Advance as far as transfers have arrived; whether the lane is complete."""
        self.moved = False
        while self._next < len(self._steps):
            step = self._steps[self._next]
            self._send(step, arrivals)
            if not self._receive(step, arrivals):
                return False
            self._next, self._is_sent, self.moved = self._next + 1, False, True
        return True

    def _send(self, step: Step, arrivals: _Arrivals) -> None:
        if not self._is_sent:
            for transfer in step.sends:
                arrivals[self._member, transfer.peer, self._lane].append(self.depth + 1)
            self._is_sent = self.moved = True

    def _receive(self, step: Step, arrivals: _Arrivals) -> bool:
        sources = [(transfer.peer, self._member, self._lane) for transfer in step.recvs]
        if any(len(arrivals[source]) < sources.count(source) for source in set(sources)):
            return False
        self.depth = max([self.depth, *(arrivals[source].popleft() for source in sources)])
        return True
