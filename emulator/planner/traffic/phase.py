"""Transfers of a whole group that take place side by side, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.trace.model import IntArray


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
