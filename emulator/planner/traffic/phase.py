"""Transfers of a whole group that take place side by side, as arrays."""

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
