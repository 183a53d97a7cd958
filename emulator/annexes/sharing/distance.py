"""How far a drawn trace set is from its source."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import ks_2samp

from emulator.annexes.sharing.statistics import gaps_ns
from emulator.trace.meaning.model import IntArray, Workload


@dataclass(frozen=True, slots=True)
class Distance:
    """A quantity in the source and in the sample.

    Attributes:
        what: `size` of a kind, or `gap` of a role.
        name: the kind, or the role with its number of ranks.
        source_count, sample_count: how many values there are.
        source_sum, sample_sum: their sums, bytes or ns.
        kolmogorov_smirnov: largest difference of the two distribution functions, 0 to 1; None: no values on one side.
    """

    what: str
    name: str
    source_count: int
    sample_count: int
    source_sum: int
    sample_sum: int
    kolmogorov_smirnov: float | None


def distances(source: Workload, sample: Workload, *, roles: Sequence[int]) -> list[Distance]:
    """Sizes by kind, then gaps by role.

    Args:
        source, sample: as they are played.
        roles: rank → role, of both.
    """
    here, there = _sizes(source), _sizes(sample)
    none = np.zeros(0, np.int64)
    sizes = [_distance("size", kind, here.get(kind, none), there.get(kind, none)) for kind in sorted({*here, *there})]
    return sizes + [_gap_distance(source, sample, role, roles) for role in sorted(set(roles))]


def _gap_distance(source: Workload, sample: Workload, role: int, roles: Sequence[int]) -> Distance:
    ranks = [rank for rank, one in enumerate(roles) if one == role]
    here, there = (
        np.concatenate([gaps_ns(workload.programs[rank]) for rank in ranks]) for workload in (source, sample)
    )
    return _distance("gap", f"role {role + 1} ({len(ranks)} rank{'s' * (len(ranks) != 1)})", here, there)


def _sizes(workload: Workload) -> dict[str, IntArray]:
    found: dict[str, list[int]] = defaultdict(list)
    for program in workload.programs:
        for node in program.communications.values():
            found[node.kind.label].append(node.size_bytes)
    return {kind: np.array(values, dtype=np.int64) for kind, values in found.items()}


def _distance(what: str, name: str, source: IntArray, sample: IntArray) -> Distance:
    statistic = float(ks_2samp(source, sample, method="asymp").statistic) if len(source) and len(sample) else None
    return Distance(what, name, len(source), len(sample), int(source.sum()), int(sample.sum()), statistic)


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
