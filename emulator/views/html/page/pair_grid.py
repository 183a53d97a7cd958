"""A heat map of pairs of ends of flows, bounded: in large worlds a cell is a block of ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from emulator.statistics.descriptive import Values
from emulator.trace.model import IntArray
from emulator.views.html.page.pictures import Columns, Rows

CELLS = 64
"""Most cells on a side of a heat map; if there are more ranks, a cell is a block of ranks."""


class PairGrid:
    """Cells of a heat map: pairs of ends, or of blocks of consecutive ends if there are many.

    Args:
        ends: names of the ends by number: ranks, then endpoints of storage hosts.
    """

    def __init__(self, ends: Sequence[str]) -> None:
        self._ends = ends
        self._block = max(1, -(-len(ends) // CELLS))
        self._names = [self._name(first) for first in range(0, len(ends), self._block)]

    def about(self, how: str) -> str:
        """What a cell shows if it is a block of ranks."""
        return "" if self._block == 1 else f" A cell covers {self._block} by {self._block} ranks: {how}."

    def sums(self, src: IntArray, dst: IntArray, values: Values) -> Mapping[tuple[int, int], tuple[float, int]]:
        """(row, column) -> sum and number of its known values."""
        side = len(self._names)
        known = ~np.isnan(values)
        cell = (src[known] // self._block) * side + dst[known] // self._block
        total, count = np.bincount(cell, weights=values[known]), np.bincount(cell)
        return {divmod(at, side): (float(total[at]), int(count[at])) for at in np.flatnonzero(count).tolist()}

    def data(self, cells: Mapping[tuple[int, int], float]) -> Mapping[str, Columns]:
        """The data sets of the picture."""
        drawn = Rows()
        for (row, column), value in cells.items():
            drawn.add(src=self._names[row], dst=self._names[column], value=value)
        return {"cells": drawn.columns, "ranks": {"name": self._names}}

    def _name(self, first: int) -> str:
        last = min(first + self._block, len(self._ends)) - 1
        return self._ends[first] if self._block == 1 else f"{self._ends[first]}-{self._ends[last]}"
