"""The times of a run, class by class, as they were measured: what statistics and comparisons are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from emulator.run_folder.reader import Run
from emulator.run_folder.schema import Part
from emulator.statistics.classes import JCT, ClassKey, class_rows
from emulator.statistics.collectives import MERGE_COLUMNS, merge, to_ints
from emulator.statistics.stats import percentile
from emulator.statistics.summary import read_measured
from emulator.trace.model import IntArray


@dataclass(frozen=True, slots=True)
class Times:
    """Every measurement of one class in one run; warm-up and excluded iterations are in none of it.

    Attributes:
        iteration: which iteration each is of.
        time_ns: cct, of an iteration its JCT; never negative.
        early: how many had payload that came before its rank had posted.
        negative: how many were left out for a time below zero.
    """

    iteration: IntArray
    time_ns: IntArray
    early: int = 0
    negative: int = 0

    def __len__(self) -> int:
        return len(self.time_ns)

    def percentile_ns(self, q: float) -> float | None:
        """The q-quantile, see `percentile`."""
        return percentile(self.time_ns, q)


@dataclass(frozen=True, slots=True)
class Measurements:
    """All classes of a run, the whole iteration among them; `incomplete` ones lacked a member and are left out."""

    classes: Mapping[ClassKey, Times]
    incomplete: int


def measurements(run: Run) -> Measurements:
    """Read the times of a run.

    Raises:
        ResultError: a table of the run is missing or damaged.
    """
    merged = merge(read_measured(run, Part.SAMPLES, MERGE_COLUMNS))
    classes: dict[ClassKey, Times] = {}
    whole = whole_iterations(read_measured(run, Part.ITERATIONS), ranks=run.manifest.trace.ranks)
    if whole:
        iterations = np.fromiter(whole, np.int64)
        classes[ClassKey(JCT, run.manifest.trace.ranks)] = Times(iterations, np.fromiter(whole.values(), np.int64))
    for key, rows in class_rows(merged):
        valid = rows[merged.cct_ns[rows] >= 0]
        early, negative = int(np.count_nonzero(merged.early[rows])), len(rows) - len(valid)
        classes[key] = Times(merged.iteration[valid], merged.cct_ns[valid], early, negative)
    return Measurements(classes, merged.incomplete)


def whole_iterations(table: pa.Table, *, ranks: int) -> dict[int, int]:
    """Iteration → its JCT in ns, first start to last end, of the iterations that all ranks completed; ascending."""
    columns = {name: to_ints(table[name]) for name in ("iteration", "start_ns", "end_ns")}
    found = {}
    for iteration in np.unique(columns["iteration"]).tolist():
        rows = columns["iteration"] == iteration
        if np.count_nonzero(rows) == ranks:
            found[iteration] = int(columns["end_ns"][rows].max() - columns["start_ns"][rows].min())
    return found
