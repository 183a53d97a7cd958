"""A player that records the steps of its communications; others do not know of it, and pay nothing for it.

A record has the transfers of one rank in one collective or pair. It stands between an execution and its endpoint: it
sees every post, and the player passes on what comes back.

The keeper decides which instances are recorded step by step, and holds their records until the controller has them.
Memory is bounded: an agent holds at most MOST_TRANSFERS, and gives the control stream no more while it is busy. What
does not fit is left out and counted; traffic never waits for it.
"""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Final

from agents.play.chain import ChainKeeper
from agents.play.execution import Poster, StepObserver
from agents.play.player import PendingCommunication, PlayObserver, RankPlayer
from agents.play.tags import CREDIT, LANE_MASK, LANE_SHIFT, PAIR, SERIAL_MASK
from agents.play.window import WindowNode
from agents.transports.base import Endpoint
from emulator.control.observations import RankSteps, StepRecords
from emulator.host.clock import Clock
from emulator.host.core_wait import CoreWait
from emulator.host.delays import NewestDelays
from emulator.planner.rank_program import WORST_STEPS, PlannedCommunication, PlaySettings
from emulator.planner.schedule import Transfer
from emulator.roce.connection.messages import FirstSent

_POST: Final = 5
_ACKNOWLEDGED: Final = 6
"""Columns of a transfer that was sent, see RankSteps."""
_LANE_BITS: Final = LANE_MASK.bit_length()
_Row = list[int]


class StepRecord:
    """Implements Poster and StepObserver.

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

    def step_begins(self, lane: int, step: int, sends: Sequence[Transfer], ranks: Sequence[int]) -> None:
        """See StepObserver."""
        for peer, _, size in sends:
            self.begin(ranks[peer], lane, step, size)

    def begin(self, peer: int, lane: int, step: int, size: int) -> None:
        """What a transfer depends on has arrived."""
        if self.is_cut or not self._admit():
            self.is_cut = True
            return
        row = [peer, lane, step, size, self._now(), 0, 0]
        self._sent.append(row)
        self._unposted[peer << _LANE_BITS | lane].append(row)

    def post(self, peer: int, tag: int, size: int, sent: FirstSent | None = None) -> None:
        """Hand a transfer of a collective, or a credit, to the endpoint."""
        if tag < CREDIT:
            self.posted(peer, tag >> LANE_SHIFT & LANE_MASK)
        self._post(peer, tag, size, sent)

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


MOST_TRANSFERS = 1 << 18
"""Transfers that an agent holds; with 72 bytes each, 19 MB. The controller has chosen within a second of reports."""
BATCH_TRANSFERS = 1 << 12
"""Transfers in one message."""
MOST_WAITING: Final = 16
"""Messages that wait for the control stream before records stay here."""

_Instance = tuple[int, int]
"""(iteration, instance)"""


class StepKeeper:
    """The records of all ranks of an agent.

    Args:
        record_steps: see PlaySettings.
        send: queues a value for the controller.
        waiting: how many values are queued.
        most: transfers that it holds.
        batch: transfers in one message.

    Attributes:
        lost: ranks' parts of every Nth instance that did not fit. Of the slowest, the controller knows what it misses.
    """

    def __init__(
        self,
        record_steps: int,
        *,
        send: Callable[[StepRecords], None],
        waiting: Callable[[], int],
        most: int = MOST_TRANSFERS,
        batch: int = BATCH_TRANSFERS,
    ) -> None:
        self._most, self._batch = most, batch
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
        while self._transfers >= self._most:
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
        if self._outgoing_transfers >= self._batch:
            self.flush()

    def _send_batch(self) -> None:
        iteration, transfers, count = self._outgoing[0].iteration, 0, 0
        for one in self._outgoing:
            if one.iteration != iteration or transfers >= self._batch:
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


_PAIR_LANE: Final = 0
_PAIR_STEP: Final = 0


class RecordingPlayer(RankPlayer):
    """Plays one rank as RankPlayer does. Warm-up is not recorded.

    Args:
        keeper: decides which instances are recorded, and takes the records.
        others: those of RankPlayer.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        clock: Clock,
        observer: PlayObserver,
        *,
        keeper: StepKeeper,
        settings: PlaySettings,
        nodes: int,
        is_resident: bool = False,
        retire_batch: int = 1,
        lateness: NewestDelays | None = None,
        core_wait: CoreWait | None = None,
        chains: ChainKeeper | None = None,
    ) -> None:
        super().__init__(
            endpoint, clock, observer, settings=settings, nodes=nodes, is_resident=is_resident,
            retire_batch=retire_batch, lateness=lateness, core_wait=core_wait, chains=chains,
        )  # fmt: skip
        self._keeper = keeper
        self._records: dict[int, StepRecord] = {}  # by serial

    def arrived(self, peer: int, tag: int, size: int, now: int, count: int = 1) -> None:
        """See EndpointEvents."""
        if not CREDIT <= tag < PAIR and (record := self._record(tag & SERIAL_MASK)) is not None:
            record.arrived(peer, tag >> LANE_SHIFT & LANE_MASK, self._endpoint.stamp_ns or now, count)
        super().arrived(peer, tag, size, now, count)

    def acknowledged(self, peer: int, tag: int, now: int) -> None:
        """See EndpointEvents."""
        if not CREDIT <= tag < PAIR and (record := self._records.get(tag & SERIAL_MASK)) is not None:
            record.acknowledged(peer, tag >> LANE_SHIFT & LANE_MASK, self._endpoint.stamp_ns or now)
        super().acknowledged(peer, tag, now)

    def _carried(self, serial: int) -> tuple[Poster, StepObserver | None]:
        record = self._record(serial)
        return super()._carried(serial) if record is None else (record, record)

    def _send(self, node: WindowNode, communication: PlannedCommunication, now: int) -> None:
        record = self._record(self._serial(communication)) if communication.size_bytes else None
        if record is not None:
            record.begin(communication.peer, _PAIR_LANE, _PAIR_STEP, communication.size_bytes)
            record.posted(communication.peer, _PAIR_LANE)
        super()._send(node, communication, now)

    def _complete_communication(
        self, serial: int, pending: PendingCommunication, now: int, *, arrival_ns: int = 0, early: bool = False
    ) -> None:
        record = self._records.pop(serial, None)
        iteration = self._iteration
        super()._complete_communication(serial, pending, now, arrival_ns=arrival_ns, early=early)
        if record is not None and iteration is not None:
            instance = serial % self._settings.instances
            self._keeper.take(
                record, iteration=iteration, instance=instance, rank=self.rank, node_id=pending.node.node_id
            )

    def _record(self, serial: int) -> StepRecord | None:
        """The record of an instance, from its first event on; None if it is not to be recorded."""
        record = self._records.get(serial)
        if record is None and self._keeper.wants(*divmod(serial, self._settings.instances)):
            record = StepRecord(self._endpoint, now=self._clock.now, admit=self._keeper.admit)
            self._records[serial] = record
        return record
