"""How far a member is in a lane of its schedule, for simulations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from emulator.planner.algorithms import schedule
from emulator.planner.schedule import Collective, Step, Transfer
from emulator.planner.traffic.operation import Operation


class LaneProgress:
    """The remaining steps of one lane of a member, and the transfers that its current step is waiting for."""

    __slots__ = ("_early", "_missing", "steps")

    def __init__(self, steps: Iterator[Step]) -> None:
        self.steps = steps
        self._missing: Counter[int] = Counter()
        self._early: Counter[int] = Counter()

    @property
    def is_waiting(self) -> bool:
        """Whether the current step lacks a transfer."""
        return bool(self._missing)

    def await_transfers(self, peers: Iterable[int]) -> bool:
        """Begin to wait for one transfer from each peer; whether any has not arrived yet."""
        self._missing = Counter(peers)
        arrived = self._missing & self._early
        self._missing -= arrived
        self._early -= arrived
        return self.is_waiting

    def receive(self, peer: int) -> bool:
        """Take a transfer that has arrived; whether it completes the current step."""
        if not self._missing[peer]:
            self._early[peer] += 1
            return False
        self._missing -= Counter([peer])
        return not self._missing


def lanes_of(operation: Operation, member: int) -> Sequence[Iterator[Step]]:
    """The lanes of one member of a collective or of a send."""
    if not operation.kind.is_collective:
        transfer = (Transfer(1 - member, 0, operation.size_bytes),) if operation.size_bytes else ()
        return [iter([Step(sends=transfer) if member == 0 else Step(recvs=transfer)])]
    view = Collective(
        operation.kind, operation.members, member, operation.size_bytes, operation.root, layout=operation.layout
    )
    if operation.splits is not None:
        splits = np.zeros((operation.members, operation.members), np.int64)
        splits[operation.splits.senders, operation.splits.receivers] = operation.splits.sizes
        view = replace(view, send_splits=splits[member].tolist(), recv_splits=splits[:, member].tolist())
    return schedule(operation.algorithm, view)
