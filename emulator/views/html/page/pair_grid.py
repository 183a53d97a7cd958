"""A heat map of pairs of ends of flows, bounded: in large worlds a cell is a block of ranks.

Traffic in a host says nothing about the device under test: it is drawn as small squares in colours of its own, over the
cells of traffic between hosts, and each has its own range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from emulator.results.statistics.method.descriptive import Values
from emulator.results.statistics.samples.classes import BETWEEN_HOSTS, IN_A_HOST
from emulator.trace.meaning.model import BoolArray, IntArray
from emulator.units import format_size
from emulator.views.columns.figures import percent_cell
from emulator.views.html.page.document import BarPart, Chart, Table
from emulator.views.html.page.pictures import Picture, Rows

CELLS = 64
"""Most cells on a side of a heat map; if there are more ranks, a cell is a block of ranks."""
_STYLES = {BETWEEN_HOSTS: "between", IN_A_HOST: "inside"}


@dataclass(frozen=True, slots=True)
class PairGrid:
    """Directed pairs of ends that exchange bytes.

    Attributes:
        ends: names of the ends by number: ranks, then endpoints of storage hosts.
        src, dst: numbers of ends, shape (pairs,).
        bytes: payload.
        crosses: whether a pair is between hosts; None: that is not known.
    """

    ends: Sequence[str]
    src: IntArray
    dst: IntArray
    bytes: IntArray
    crosses: BoolArray | None = None

    def where(self, pair: int) -> str:
        """BETWEEN_HOSTS, IN_A_HOST, or "" if that is not known."""
        if self.crosses is None:
            return ""
        return BETWEEN_HOSTS if self.crosses[pair] else IN_A_HOST

    def heat_map(
        self,
        identifier: str,
        title: str,
        about: str,
        table: Table,
        *,
        means_of: Values | None = None,
        text: Callable[[float], str] = lambda value: format_size(int(value)),
    ) -> Chart:
        """The heat map of the bytes, or of another value.

        Args:
            about: what the values are.
            means_of: a value per pair, NaN if it is not known; None: sums of the bytes.
            text: a value with its unit.
        """
        drawn, ranges = Rows(), []
        for where, pairs in self._kinds():
            cells = self._cells(pairs, means_of)
            if cells:
                ranges.append(f"from 0 to {text(max(cells.values()))} {where}".rstrip())
            for (row, column), value in cells.items():
                drawn.add(src=self._name(row), dst=self._name(column), value=value, text=text(value), where=where)
        block, ranged = self._block, ", ".join(ranges) or "from 0 to 0"
        how = "sum" if means_of is None else "mean of the pairs"
        covered = f" A cell covers {block} by {block} ranks: {how}." if block > 1 else ""
        return Chart(
            identifier,
            title,
            f"{about} Colours range {ranged}; n = {len(self.src):,} pairs.{covered}",
            f"Heat map: a row per sender, a column per receiver; values {ranged}.",
            Picture("heat", {"cells": drawn.columns, "ranks": {"name": self._names}}),
            table,
            legend=self._legend(),
        )

    def _kinds(self) -> Sequence[tuple[str, BoolArray]]:
        """(where, which pairs are there)."""
        if self.crosses is None:
            return (("", np.ones(len(self.src), bool)),)
        return (BETWEEN_HOSTS, self.crosses), (IN_A_HOST, ~self.crosses)

    def _legend(self) -> Sequence[BarPart]:
        total, parts = max(int(self.bytes.sum()), 1), []
        for where, pairs in self._kinds() if self.crosses is not None else ():
            size = int(self.bytes[pairs].sum())
            value = f"{format_size(size)}, {percent_cell(size / total, digits=0)}"
            parts.append(BarPart(where, value, size / total, _STYLES[where]))
        return parts

    def _cells(self, pairs: BoolArray, means_of: Values | None) -> Mapping[tuple[int, int], float]:
        """(row, column) -> sum of its bytes, or mean of its known values, of some pairs."""
        side, values = len(self._names), self.bytes if means_of is None else means_of
        known = pairs & ~np.isnan(values)
        cell = (self.src[known] // self._block) * side + self.dst[known] // self._block
        total, count = np.bincount(cell, weights=values[known]), np.bincount(cell)
        shown = total if means_of is None else total / np.maximum(count, 1)
        return {divmod(at, side): float(shown[at]) for at in np.flatnonzero(count).tolist()}

    @property
    def _block(self) -> int:
        """Ends on a side of a cell."""
        return max(1, -(-len(self.ends) // CELLS))

    @property
    def _names(self) -> list[str]:
        return [self._name(number) for number in range(-(-len(self.ends) // self._block))]

    def _name(self, number: int) -> str:
        """Of a row or column."""
        first = number * self._block
        last = min(first + self._block, len(self.ends)) - 1
        return self.ends[first] if self._block == 1 else f"{self.ends[first]}-{self.ends[last]}"
