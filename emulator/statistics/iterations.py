"""How long the iterations of a run took (JCT), and how the slowest rank spent the median one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from emulator.run_folder.manifest import Manifest
from emulator.statistics.descriptive import median_index, variation
from emulator.statistics.table_columns import to_ints
from emulator.trace.model import IntArray


class Span(NamedTuple):
    """From the first start to the last end, ns on the clock of the run."""

    start_ns: int
    end_ns: int

    @property
    def duration_ns(self) -> int:
        """How long it took."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class IterationSummary:
    """Durations of the iterations, and the slowest rank of the median iteration.

    Attributes:
        count: iterations that all ranks completed.
        jct_ns, jct_min_ns, jct_max_ns: first start to last end: lower median, smallest, largest.
        jct_variation: coefficient of variation.
        roofline_ratio, sequential_roofline_ratio: median JCT / roofline JCT.
        slowest_rank: the rank that ended last in the median iteration.
        compute_ns, communication_ns, overlap_ns: of that rank: device busy, communication in flight, both.
    """

    count: int
    jct_ns: float
    jct_min_ns: float
    jct_max_ns: float
    jct_variation: float | None
    roofline_ratio: float | None
    sequential_roofline_ratio: float | None
    slowest_rank: int
    compute_ns: int
    communication_ns: int
    overlap_ns: int

    @property
    def ideal_ns(self) -> float | None:
        """JCT with every collective at its ideal time (the roofline); None if a port has no rate."""
        return self.jct_ns / self.roofline_ratio if self.roofline_ratio else None

    @property
    def exposed_ns(self) -> int:
        """Communication that no compute hides."""
        return self.communication_ns - self.overlap_ns

    @property
    def exposed_fraction(self) -> float | None:
        """Exposed communication over JCT."""
        return self.exposed_ns / self.jct_ns if self.jct_ns else None

    @property
    def overlap_fraction(self) -> float | None:
        """Part of the communication that compute hides."""
        return self.overlap_ns / self.communication_ns if self.communication_ns else None


def summarise_iterations(table: pa.Table, manifest: Manifest) -> IterationSummary | None:
    """Summarise the iterations that all ranks completed; None if there is none.

    Args:
        table: rows of the iterations table that count.
        manifest: of the run.
    """
    columns = {name: to_ints(table[name]) for name in table.column_names}
    complete = complete_iterations(columns["iteration"], ranks=manifest.trace.ranks)
    if not complete:
        return None
    jct = np.array([_span(columns, rows).duration_ns for rows in complete], np.int64)
    median_at = median_index(jct)
    rows = complete[median_at]
    slowest = int(rows[np.lexsort((columns["rank"][rows], -columns["end_ns"][rows]))[0]])
    jct_ns = float(jct[median_at])
    return IterationSummary(
        count=len(complete),
        jct_ns=jct_ns,
        jct_min_ns=float(jct.min()),
        jct_max_ns=float(jct.max()),
        jct_variation=variation(jct),
        roofline_ratio=_ratio(jct_ns, manifest.roofline_ns),
        sequential_roofline_ratio=_ratio(jct_ns, manifest.sequential_roofline_ns),
        slowest_rank=int(columns["rank"][slowest]),
        **{name: int(columns[name][slowest]) for name in ("compute_ns", "communication_ns", "overlap_ns")},
    )


def iteration_spans(table: pa.Table, *, ranks: int) -> dict[int, Span]:
    """Iteration → when it was, for the iterations that all ranks completed, ascending."""
    columns = {name: to_ints(table[name]) for name in ("iteration", "start_ns", "end_ns")}
    complete = complete_iterations(columns["iteration"], ranks=ranks)
    return {int(columns["iteration"][rows[0]]): _span(columns, rows) for rows in complete}


def iteration_durations(table: pa.Table, *, ranks: int) -> dict[int, int]:
    """Iteration → JCT in ns, for the iterations that all ranks completed, ascending."""
    return {number: one.duration_ns for number, one in iteration_spans(table, ranks=ranks).items()}


def complete_iterations(iteration: IntArray, *, ranks: int) -> list[IntArray]:
    """The rows of each iteration that has one per rank, by iteration."""
    order = np.argsort(iteration, kind="stable")
    _, starts = np.unique(iteration[order], return_index=True)
    return [rows for rows in np.split(order, starts[1:]) if len(rows) == ranks]


def _span(columns: dict[str, IntArray], rows: IntArray) -> Span:
    return Span(int(columns["start_ns"][rows].min()), int(columns["end_ns"][rows].max()))


def _ratio(measured_ns: float, reference_ns: int | None) -> float | None:
    return measured_ns / reference_ns if reference_ns else None
