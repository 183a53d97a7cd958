"""How long the iterations of a run took (JCT), how the slowest rank spent the median one, and all times by class.

An iteration lasts from the start of its first rank to the end of its last rank. With the pace `continuous` a rank
begins before others have ended the iteration before: counted from the first start, neighbours would overlap, and their
sum would be longer than the run. There it lasts from the end of the iteration before, if that is later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from emulator.control.observations import EVENTS
from emulator.results.run_folder.manifest import Manifest
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.method.descriptive import median_index, percentile, variation
from emulator.results.statistics.samples.classes import JCT, ClassKey, class_rows
from emulator.results.statistics.samples.collectives import MERGE_COLUMNS, merge
from emulator.results.statistics.samples.measured_rows import read_measured, to_ints
from emulator.results.statistics.traffic.network_traffic import hosts_of_ranks
from emulator.results.statistics.uncertainty import Budget
from emulator.trace.meaning.model import IntArray


class Span(NamedTuple):
    """From the first start, but not before the end of the iteration before, to the last end; ns on the run's clock."""

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
        jct_ns, jct_min_ns, jct_max_ns: duration, see above: lower median, smallest, largest.
        roofline_ratio, sequential_roofline_ratio: median JCT / roofline JCT.
        slowest_rank: the rank that ended last in the median iteration.
        compute_ns, communication_ns, overlap_ns: of that rank: device busy, communication in flight, both.
        uncertainty: attribute → its budget: of the median JCT and its ratio to the roofline.
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
    uncertainty: Mapping[str, Budget] = field(default_factory=dict)

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
        table: the whole iterations table, warm-up included.
    """
    columns = {name: to_ints(table[name]) for name in table.column_names}
    counted = _counted(columns, manifest)
    if not counted:
        return None
    jct = np.array([span.duration_ns for _, _, span in counted], np.int64)
    median_at = median_index(jct)
    rows = counted[median_at][1]
    slowest = int(rows[np.lexsort((columns["rank"][rows], -columns["end_ns"][rows]))[0]])
    jct_ns = float(jct[median_at])
    return IterationSummary(
        count=len(counted),
        jct_ns=jct_ns,
        jct_min_ns=float(jct.min()),
        jct_max_ns=float(jct.max()),
        jct_variation=variation(jct),
        roofline_ratio=_ratio(jct_ns, manifest.roofline_ns),
        sequential_roofline_ratio=_ratio(jct_ns, manifest.sequential_roofline_ns),
        slowest_rank=int(columns["rank"][slowest]),
        compute_ns=int(columns["compute_ns"][slowest]),
        communication_ns=int(columns["communication_ns"][slowest]),
        overlap_ns=int(columns["overlap_ns"][slowest]),
    )


@dataclass(frozen=True, slots=True)
class MeasuredIteration:
    """An iteration that counts and that all ranks completed.

    Attributes:
        jct_ns: first start to last end.
        events: counter of flows -> what all flows counted in it; None if that was not recorded.
    """

    number: int
    jct_ns: int
    events: Mapping[str, int | None]


def measured_iterations(
    table: pa.Table, flow_events: pa.Table, totals: Mapping[str, int], manifest: Manifest
) -> tuple[MeasuredIteration, ...]:
    """The iterations that count and that all ranks completed, ascending.

    Args:
        table: the whole iterations table, warm-up included.
        flow_events: table of the run; empty if none happened, or if they were not recorded.
        totals: counter -> its sum over all flows of the whole run; what is 0 there is 0 in every iteration.
    """
    numbers, where = np.unique(to_ints(flow_events["iteration"]), return_inverse=True)
    counted = {
        name: dict(zip(numbers.tolist(), np.bincount(where, to_ints(flow_events[name], null=0)), strict=True))
        for name in EVENTS
    }

    def count(name: str, number: int) -> int | None:
        if totals.get(name) and len(numbers):
            return int(counted[name].get(number, 0))
        return 0 if totals.get(name) == 0 else None

    durations = iteration_durations(table, manifest)
    return tuple(
        MeasuredIteration(number, jct_ns, {name: count(name, number) for name in EVENTS})
        for number, jct_ns in durations.items()
    )


def iteration_spans(table: pa.Table, manifest: Manifest) -> dict[int, Span]:
    """Iteration → when it was, for those that all ranks completed, warm-up included, ascending.

    Args:
        table: the whole iterations table.
    """
    columns = {name: to_ints(table[name]) for name in ("iteration", "start_ns", "end_ns")}
    return {number: span for number, _, span in played_iterations(columns, manifest)}


def iteration_durations(table: pa.Table, manifest: Manifest) -> dict[int, int]:
    """Iteration → JCT in ns, for the iterations that count and that all ranks completed, ascending.

    Args:
        table: the whole iterations table, warm-up included.
    """
    columns = {name: to_ints(table[name]) for name in ("iteration", "start_ns", "end_ns")}
    return {number: span.duration_ns for number, _, span in _counted(columns, manifest)}


def complete_iterations(iteration: IntArray, *, ranks: int) -> list[IntArray]:
    """The rows of each iteration that has one per rank, by iteration."""
    order = np.argsort(iteration, kind="stable")
    _, starts = np.unique(iteration[order], return_index=True)
    return [rows for rows in np.split(order, starts[1:]) if len(rows) == ranks]


def _counted(columns: dict[str, IntArray], manifest: Manifest) -> list[tuple[int, IntArray, Span]]:
    """Those of `played_iterations` that count."""
    excluded = {one.iteration for one in manifest.trials.excluded}
    return [one for one in played_iterations(columns, manifest) if one[0] >= 0 and one[0] not in excluded]


def played_iterations(columns: Mapping[str, IntArray], manifest: Manifest) -> Iterator[tuple[int, IntArray, Span]]:
    """Number, rows and span of each iteration that all ranks completed, warm-up included.

    Args:
        columns: of the whole iterations table: iteration, start_ns and end_ns.
    """
    pace = manifest.parameters.get("pace")
    is_continuous = pace is not None and pace.value == "continuous"
    ended_ns = 0  # the iteration before
    for rows in complete_iterations(columns["iteration"], ranks=manifest.trace.ranks):
        begun_ns = int(columns["start_ns"][rows].min())
        if is_continuous:
            begun_ns = max(ended_ns, begun_ns)
        ended_ns = int(columns["end_ns"][rows].max())
        yield int(columns["iteration"][rows[0]]), rows, Span(begun_ns, max(begun_ns, ended_ns))


def _ratio(measured_ns: float, reference_ns: int | None) -> float | None:
    return measured_ns / reference_ns if reference_ns else None


@dataclass(frozen=True, slots=True)
class Times:
    """The measurements of one class in one run, without warm-up and excluded iterations.

    Attributes:
        iteration: iteration of each measurement.
        time_ns: cct, or JCT for the class of iterations; never negative.
        early: how many had payload that arrived before its rank had posted.
        negative: how many were left out because their time is below zero.
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

    def only(self, iterations: IntArray) -> Times:
        """Those of some iterations; `early` and `negative` stay those of the run."""
        kept = np.isin(self.iteration, iterations)
        return replace(self, iteration=self.iteration[kept], time_ns=self.time_ns[kept])


@dataclass(frozen=True, slots=True)
class Measurements:
    """The times of all classes of a run, JCT included.

    Attributes:
        incomplete: measurements that lacked a member and are left out.
        network: the part of the network, of classes of which at least half of the measurements have it.
    """

    classes: Mapping[ClassKey, Times]
    incomplete: int
    network: Mapping[ClassKey, Times] = field(default_factory=dict)


def measurements(run: Run) -> Measurements:
    """Read the times of a run.

    Raises:
        ResultError: a table of the run is missing or damaged.
    """
    samples, hosts = read_measured(run, RunTable.SAMPLES, MERGE_COLUMNS), hosts_of_ranks(run.manifest)
    merged = merge(samples, hosts, until=run.manifest.cct_until)
    classes: dict[ClassKey, Times] = {}
    network: dict[ClassKey, Times] = {}
    durations = iteration_durations(run.table(RunTable.ITERATIONS), run.manifest)
    if durations:
        iterations, jct_ns = np.array(list(durations.items()), np.int64).T
        classes[ClassKey(JCT, run.manifest.trace.ranks)] = Times(iterations, jct_ns)
    for key, rows in class_rows(merged):
        valid = rows[merged.cct_ns[rows] >= 0]
        early, negative = int(np.count_nonzero(merged.early[rows])), len(rows) - len(valid)
        classes[key] = Times(merged.iteration[valid], merged.cct_ns[valid], early, negative)
        known = valid[merged.network_ns[valid] > 0]
        if len(known) and 2 * len(known) >= len(valid):
            network[key] = Times(merged.iteration[known], merged.network_ns[known])
    return Measurements(classes, merged.incomplete, network)
