"""Transfers of a whole group, as arrays: side by side, or full exchanges as what they add up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emulator.trace.meaning.model import IntArray


@dataclass(frozen=True, slots=True)
class Phase:
    """Transfers that take place side by side.

    Attributes:
        senders, receivers: int64, shape (transfers,), member numbers.
        sizes: int64, shape (transfers,), bytes summed over the steps, at least 1.
        steps: how many steps of the algorithm the phase stands for; the pairs are the same in each.
    """

    senders: IntArray
    receivers: IntArray
    sizes: IntArray
    steps: int = 1

    @classmethod
    def of(cls, transfers: Sequence[tuple[int, int, int]], steps: int = 1) -> Phase:
        """From (sender, receiver, bytes) of each transfer."""
        columns = np.array(transfers, dtype=np.int64).reshape(-1, 3)
        return cls(columns[:, 0], columns[:, 1], columns[:, 2], steps)


@dataclass(frozen=True, slots=True)
class FullExchange:
    """Every member sends to every other: n(n - 1) transfers that need not be listed to be added up.

    Attributes:
        sent, received: int64, shape (n,); from s to t go `sent[s] + received[t]` bytes, summed over the steps.
        is_by_distance: a step for every distance between members; else all pairs in each step.
    """

    sent: IntArray
    received: IntArray
    is_by_distance: bool = False

    @property
    def least(self) -> int:
        """Bytes of the smallest transfer."""
        return _smallest(self.sent, self.received)

    @property
    def most(self) -> int:
        """Bytes of the largest transfer."""
        return -_smallest(-self.sent, -self.received)


def _smallest(sent: IntArray, received: IntArray) -> int:
    """The smallest `sent[s] + received[t]` with s ≠ t."""
    first, second = np.argpartition(received, 1)[:2] if len(received) > 2 else np.argsort(received)
    others = np.where(np.arange(len(sent)) == first, received[second], received[first])
    return int((sent + others).min())
