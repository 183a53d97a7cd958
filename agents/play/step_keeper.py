"""Which instances of an agent are recorded step by step, and their records until the controller has them.

Memory is bounded: an agent holds at most MOST_TRANSFERS, and gives the control stream no more while it is busy. What
does not fit is left out and counted; traffic never waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agents.play.step_record import StepRecord
from emulator.control.observations import RankSteps, StepRecords
from emulator.planner.rank_program import WORST_STEPS

MOST_TRANSFERS = 1 << 18
"""Transfers that an agent holds; with 72 bytes each, 19 MB. The controller has chosen within a second of reports."""
BATCH_TRANSFERS = 1 << 12
"""Transfers in one message."""
MOST_WAITING = 16
"""Messages that wait for the control stream before records stay here."""

_Instance = tuple[int, int]
"""(iteration, instance)"""


class StepKeeper:
    """The records of all ranks of an agent.

    Args:
        record_steps: see PlaySettings.
        send: queues a value for the controller.
        waiting: how many values are queued.

    Attributes:
        lost: ranks' parts of every Nth instance that did not fit. Of the slowest, the controller knows what it misses.
    """

    def __init__(
        self,
        record_steps: int,
        *,
        send: Callable[[StepRecords], None],
        waiting: Callable[[], int],
    ) -> None:
        self._record_steps, self._send, self._waiting = record_steps, send, waiting
        self._held: dict[_Instance, list[RankSteps]] = {}  # done, and nobody has asked for them yet; oldest first
        self._outgoing: list[RankSteps] = []
        self._transfers = 0  # being recorded, held and outgoing
        self._outgoing_transfers = 0
        self.lost = 0

    def wants(self, epoch: int, instance: int) -> bool:
        """Whether to record an instance; `epoch` counts iterations, warm-up included.

        Of every iteration others than of the one before: with N = 5 instances 0, 5, 10 …, then 4, 9, 14 …
        """
        return self._record_steps == WORST_STEPS or (instance + epoch) % self._record_steps == 0

    def admit(self) -> bool:
        """Whether there is room for one more transfer, which then is taken."""
        while self._transfers >= MOST_TRANSFERS:
            if not self._held:
                return False
            self._drop_oldest()
        self._transfers += 1
        return True

    def take(self, record: StepRecord, *, iteration: int, instance: int, rank: int, node_id: int) -> None:
        """A communication is done on a rank."""
        if iteration < 0 or record.is_cut:
            self._transfers -= record.transfers
            self.lost += iteration >= 0 and self._record_steps != WORST_STEPS
            return
        steps = record.steps(iteration=iteration, instance=instance, rank=rank, node_id=node_id)
        if self._record_steps == WORST_STEPS:
            self._held.setdefault((iteration, instance), []).append(steps)
        else:
            self._queue(steps)

    def release(self, iteration: int, instances: Sequence[int]) -> None:
        """The controller wants the steps of instances that are done; what had to make room, it misses."""
        for instance in instances:
            for one in self._held.pop((iteration, instance), ()):
                self._queue(one)
        self.flush()

    def flush(self) -> None:
        """Send what is queued, as far as the control stream keeps up."""
        while self._outgoing and self._waiting() < MOST_WAITING:
            self._send_batch()

    def finish(self) -> None:
        """Send all that is queued: the run is over."""
        while self._outgoing:
            self._send_batch()

    def _queue(self, steps: RankSteps) -> None:
        self._outgoing.append(steps)
        self._outgoing_transfers += len(steps.step)
        if self._outgoing_transfers >= BATCH_TRANSFERS:
            self.flush()

    def _send_batch(self) -> None:
        iteration, transfers, count = self._outgoing[0].iteration, 0, 0
        for one in self._outgoing:
            if one.iteration != iteration or transfers >= BATCH_TRANSFERS:
                break
            transfers += len(one.step)
            count += 1
        batch, self._outgoing = self._outgoing[:count], self._outgoing[count:]
        self._transfers -= transfers
        self._outgoing_transfers -= transfers
        self._send(StepRecords(iteration, batch))

    def _drop_oldest(self) -> None:
        blocks = self._held.pop(next(iter(self._held)))
        self._transfers -= sum(len(one.step) for one in blocks)
