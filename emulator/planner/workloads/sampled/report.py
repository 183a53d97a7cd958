"""What was drawn, and how far it is from its source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from emulator.planner.workloads.sampled.distance import Distance


@dataclass(frozen=True, slots=True)
class SampledTrace:
    """A trace set that was drawn from the statistics of another.

    Attributes:
        roles: kinds of ranks: those of one perform the same operations.
        families: kinds of process groups and pairs, which perform the same operations.
        steps: operations of a family, all its groups together.
        modelled, not_modelled: in words.
    """

    ranks: int
    roles: int
    families: int
    steps: int
    seed: int
    distances: Sequence[Distance]
    modelled: Sequence[str]
    not_modelled: Sequence[str]
    files: Sequence[Path]
