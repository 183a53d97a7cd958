"""Bytes between ranks, and the busiest member of every operation, by the planned algorithms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emulator.planner.traffic.operation import Operation, Traffic
from emulator.trace.meaning.model import IntArray


@dataclass(frozen=True, slots=True)
class PairBytes:
    """Directed pairs of ranks with traffic in one iteration: int64, shape (pairs,); bytes are payload."""

    src: IntArray
    dst: IntArray
    bytes: IntArray

    def of_rank(self, rank: int | None) -> PairBytes:
        """The pairs that a rank is one of; None: all."""
        if rank is None:
            return self
        chosen = (self.src == rank) | (self.dst == rank)
        return PairBytes(self.src[chosen], self.dst[chosen], self.bytes[chosen])


def pair_bytes(traffic: Traffic) -> PairBytes:
    """The sum over all operations, pair by pair."""
    keys, sizes = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for operation in traffic.operations:
        for phase in operation.totals():
            senders, receivers = operation.ranks[:, phase.senders], operation.ranks[:, phase.receivers]
            keys.append((senders * traffic.ranks + receivers).ravel())
            sizes.append((operation.counts[:, None] * phase.sizes[None, :]).ravel())
    pairs, place = np.unique(np.concatenate(keys), return_inverse=True)
    total = np.zeros(len(pairs), dtype=np.int64)
    np.add.at(total, place, np.concatenate(sizes))
    return PairBytes(pairs // traffic.ranks, pairs % traffic.ranks, total)


def busiest_bytes(traffic: Traffic) -> IntArray:
    """Bytes that the busiest member sends or receives: int64, shape (instances,); `traffic` is that of a workload."""
    of_operation = np.array([_busiest(operation) for operation in traffic.operations], dtype=np.int64)
    return of_operation[[place.operation for place in traffic.places]] if len(of_operation) else of_operation


def _busiest(operation: Operation) -> int:
    sent, received = (np.zeros(operation.members, dtype=np.int64) for _ in range(2))
    for phase in operation.totals():
        np.add.at(sent, phase.senders, phase.sizes)
        np.add.at(received, phase.receivers, phase.sizes)
    return int(max(sent.max(initial=0), received.max(initial=0)))
