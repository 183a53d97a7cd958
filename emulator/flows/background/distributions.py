"""Published distributions of flow sizes, as the tables that simulators of data centre networks use.

Between two points of a table, sizes are spread evenly: its CDF is interpolated linearly, as those simulators do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from emulator.errors import PlanError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_PACKET_BYTES = 1460
"""Payload of a packet in the tables of pFabric's simulations, which count packets."""


@dataclass(frozen=True, slots=True, eq=False)
class SizeDistribution:
    """Sizes of flows.

    Attributes:
        source: where it was measured, and whose table this is.
        unit_bytes: the sizes of the points count these.
        points: (size, share of flows that are at most so large), in ascending order, from a share of 0 to 1.
        published_mean_bytes: as published with the table; None: none was.
    """

    source: str
    unit_bytes: int
    points: tuple[tuple[int, float], ...]
    published_mean_bytes: int | None = None

    @property
    def mean_bytes(self) -> float:
        """Mean of the interpolated table, bytes."""
        sizes, shares = np.array(self.points, np.float64).T
        return float(np.sum(np.diff(shares) * (sizes[1:] + sizes[:-1])) / 2 * self.unit_bytes)

    def sizes(self, shares: FloatArray) -> IntArray:
        """The sizes at shares from 0 to 1, bytes: at least 1."""
        sizes, known = np.array(self.points, np.float64).T
        found: IntArray = np.maximum(1, np.rint(np.interp(shares, known, sizes) * self.unit_bytes)).astype(np.int64)
        return found


DISTRIBUTIONS: Mapping[str, SizeDistribution] = {
    "web-search": SizeDistribution(
        "web search, DCTCP (Alizadeh et al., SIGCOMM 2010); table and mean of pFabric's simulations (SIGCOMM 2013)",
        _PACKET_BYTES,
        (
            (6, 0.0), (6, 0.15), (13, 0.2), (19, 0.3), (33, 0.4), (53, 0.53), (133, 0.6), (667, 0.7), (1333, 0.8),
            (3333, 0.9), (6667, 0.97), (20_000, 1.0),
        ),
        1138 * _PACKET_BYTES,
    ),
    "data-mining": SizeDistribution(
        "data mining, VL2 (Greenberg et al., SIGCOMM 2009); table and mean of pFabric's simulations (SIGCOMM 2013)",
        _PACKET_BYTES,
        (
            (1, 0.0), (1, 0.5), (2, 0.6), (3, 0.7), (7, 0.8), (267, 0.9), (2107, 0.95), (66_667, 0.99),
            (666_667, 1.0),
        ),
        5117 * _PACKET_BYTES,
    ),
    "hadoop": SizeDistribution(
        "Hadoop at Facebook (Roy et al., SIGCOMM 2015); table of HPCC's simulations (Li et al., SIGCOMM 2019)",
        1,
        (
            (0, 0.0), (100, 0.01), (200, 0.02), (300, 0.05), (350, 0.15), (400, 0.2), (500, 0.3), (600, 0.4),
            (700, 0.5), (1000, 0.6), (2000, 0.67), (7000, 0.7), (30_000, 0.72), (50_000, 0.82), (80_000, 0.87),
            (120_000, 0.9), (300_000, 0.95), (1_000_000, 0.975), (2_000_000, 0.99), (10_000_000, 1.0),
        ),
    ),
}  # fmt: skip


def distribution_named(name: str, size_bytes: int) -> SizeDistribution:
    """A published distribution, or for `fixed` all of one size.

    Raises:
        PlanError: there is no such distribution.
    """
    if name == "fixed":
        return SizeDistribution("fixed", size_bytes, ((1, 0.0), (1, 1.0)), size_bytes)
    if name not in DISTRIBUTIONS:
        raise PlanError(f"there are no sizes named {name!r}; there are fixed, {', '.join(DISTRIBUTIONS)}")
    return DISTRIBUTIONS[name]
