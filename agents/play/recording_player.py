"""A player that records the steps of its communications; others do not know of it, and pay nothing for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.play.execution import Poster
from agents.play.player import RankPlayer
from agents.play.step_keeper import StepKeeper
from agents.play.step_record import StepRecord
from agents.play.tags import CREDIT, LANE_MASK, LANE_SHIFT, PAIR, SERIAL_MASK
from agents.play.window import WindowNode
from emulator.planner.rank_program import PlannedCommunication
from emulator.planner.schedule import Lane

_PAIR_LANE = _PAIR_STEP = 0


class RecordingPlayer(RankPlayer):
    """Plays one rank as RankPlayer does. Warm-up is not recorded.

    Args:
        keeper: decides which instances are recorded, and takes the records.
        arguments: those of RankPlayer.
    """

    def __init__(self, *arguments: Any, keeper: StepKeeper, **named: Any) -> None:
        super().__init__(*arguments, **named)
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

    def _carried(self, serial: int, lanes: Sequence[Lane], ranks: Sequence[int]) -> tuple[Poster, Sequence[Lane]]:
        record = self._record(serial)
        return super()._carried(serial, lanes, ranks) if record is None else (record, record.watched(lanes, ranks))

    def _send(self, node: WindowNode, communication: PlannedCommunication, now: int) -> None:
        record = self._record(self._serial(communication)) if communication.size_bytes else None
        if record is not None:
            record.begin(communication.peer, _PAIR_LANE, _PAIR_STEP, communication.size_bytes)
            record.posted(communication.peer, _PAIR_LANE)
        super()._send(node, communication, now)

    def _complete_communication(self, serial: int, pending: Any, now: int, **facts: Any) -> None:
        record = self._records.pop(serial, None)
        iteration = self._iteration
        super()._complete_communication(serial, pending, now, **facts)
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
