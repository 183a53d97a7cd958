"""The facts of a run that people and machines look at first: a row per class of collectives, then the iteration.

A class is (kind, group size, size, algorithm). Speeds of a class come from its median time, over measurements that have
one: those whose payload ran ahead of a post, or whose time is negative, are counted and give no speed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from emulator.run_folder.manifest import Manifest, Scaling, Trials
from emulator.run_folder.reader import Run
from emulator.run_folder.schema import Part
from emulator.run_folder.stream import to_table
from emulator.statistics.collectives import (
    MERGE_COLUMNS,
    UNKNOWN,
    Merged,
    busbw_factor,
    labels_and_codes,
    merge,
    nccl_size,
    to_ints,
)
from emulator.statistics.dut_counts import count_dut
from emulator.statistics.flows import sum_flows
from emulator.statistics.stats import median, median_index, percentile, variation
from emulator.statistics.tester import LIMITED_PERCENT, Ceiling, TesterAlone, sent_meanwhile
from emulator.trace.model import BoolArray, CommKind, IntArray
from emulator.units import NS_PER_S

SEND_RECV = "send_recv"


@dataclass(frozen=True, slots=True)
class ClassSummary:
    """One row of the table. None is what the table shows as a dash.

    Attributes:
        collective: kind of communication; `send_recv` for a pair.
        members: ranks in the group.
        size_bytes: as nccl-tests counts it.
        algorithm: "" for send and receive.
        count: such collectives in one iteration.
        samples: measurements the percentiles are made of.
        algbw_bytes_per_s, busbw_bytes_per_s: at the median time of the measurements that have a speed.
        ideal_percent: 100 · ideal / measured, at the median.
        cct_p50_ns, cct_p99_ns, cct_max_ns: of all measurements that are not negative.
        skew_p50_ns: median of last post - first post.
        traced_ns: median over collectives of the shortest duration the trace recorded for a member.
        bw_ratio: bandwidth measured / bandwidth traced, at the median.
        tester_percent: 100 · what the calibrated tester alone would have needed / measured, at the median.
    """

    collective: str
    members: int
    size_bytes: int
    algorithm: str
    count: int
    samples: int
    algbw_bytes_per_s: float | None
    busbw_bytes_per_s: float | None
    ideal_percent: float | None
    cct_p50_ns: float | None
    cct_p99_ns: float | None
    cct_max_ns: float | None
    skew_p50_ns: float | None
    traced_ns: float | None
    bw_ratio: float | None
    tester_percent: float | None = None

    @property
    def is_tester_limited(self) -> bool | None:
        """Whether this says more of the tester than of what is tested; None if the tester was not calibrated."""
        return None if self.tester_percent is None else self.tester_percent >= LIMITED_PERCENT

    @property
    def total_ns(self) -> float:
        """What sorts the table: time in one iteration, were they one after another."""
        return (self.cct_p50_ns or 0.0) * self.count


@dataclass(frozen=True, slots=True)
class IterationSummary:
    """How long iterations took, and what the slowest rank of the median one did.

    Attributes:
        count: iterations that all ranks completed.
        jct_ns, jct_min_ns, jct_max_ns: first start to last end; the median is the lower one.
        jct_variation: coefficient of variation.
        roofline_ratio, sequential_roofline_ratio: JCT / roofline JCT.
        slowest_rank: the rank that ended last in the median iteration.
        compute_ns, communication_ns, overlap_ns: of that rank: device busy, communication under way, both.
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
    def exposed_ns(self) -> int:
        """Communication that no compute hid."""
        return self.communication_ns - self.overlap_ns

    @property
    def exposed_fraction(self) -> float | None:
        """Exposed communication over JCT."""
        return self.exposed_ns / self.jct_ns if self.jct_ns else None

    @property
    def overlap_fraction(self) -> float | None:
        """Part of the communication that compute hid."""
        return self.overlap_ns / self.communication_ns if self.communication_ns else None


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums.

    Attributes:
        samples: rows of the measured iterations.
        payload_bytes: sent in one iteration, each byte once.
        payload_bytes_per_s: over the median JCT.
        early: samples of collectives whose payload came before their rank had posted.
        negative: measurements left out for a time below zero.
        incomplete: measurements left out because not every member reported.
        counters: of all flows and the whole run, see flows.py; a counter that the transport cannot know is absent.
        dut: frames that the device under test lost and marked, see dut_counts.py; empty if it says none.
    """

    samples: int
    payload_bytes: int
    payload_bytes_per_s: float | None
    early: int
    negative: int
    incomplete: int
    counters: Mapping[str, int]
    dut: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TesterFacts:
    """What the tester itself was like; None if no agent said.

    Attributes:
        post_lateness_median_ns, peak_rss_bytes, steal_fraction: of the agent where it was largest.
    """

    observation_point: str
    clock_source: str
    clock_error_ns: int
    agents: int
    post_lateness_median_ns: int | None
    peak_rss_bytes: int | None
    steal_fraction: float | None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Everything the summary of a run shows."""

    run_id: str
    status: str
    reason: str | None
    trace: str
    ranks: int
    scaling: Scaling
    trials: Trials
    classes: tuple[ClassSummary, ...]
    iteration: IterationSummary | None
    totals: Totals
    tester: TesterFacts
    warnings: Mapping[str, int]


def summarise(run: Run) -> RunSummary:
    """Sum a run up. Warm-up and excluded iterations do not count.

    Raises:
        ResultError: a table of the run is missing or damaged.
    """
    manifest = run.manifest
    samples = read_measured(run, Part.SAMPLES, [*MERGE_COLUMNS, "bytes_sent"])
    merged = merge(samples)
    iteration = _summarise_iterations(read_measured(run, Part.ITERATIONS), manifest)
    return RunSummary(
        run_id=manifest.run_id,
        status=manifest.status,
        reason=manifest.reason,
        trace=manifest.trace.path,
        ranks=manifest.trace.ranks,
        scaling=manifest.scaling,
        trials=manifest.trials,
        classes=classify(merged, scaled_by=manifest.scaling.bytes, tester=_tester(manifest, samples, merged)),
        iteration=iteration,
        totals=replace(
            _sum_up(samples, merged, run.table(Part.FLOWS), iteration),
            dut=count_dut(run.table(Part.COUNTERS), manifest),
        ),
        tester=_describe_tester(manifest),
        warnings=manifest.warnings,
    )


Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def measured_rows(rows: Rows, manifest: Manifest) -> Rows:
    """The rows of iterations that count."""
    iteration = to_ints(rows["iteration"])
    excluded = [one.iteration for one in manifest.trials.excluded]
    return rows.filter(pa.array((iteration >= 0) & ~np.isin(iteration, excluded)))


def read_measured(run: Run, part: Part, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a table that belong to iterations that count; all columns or those named, `iteration` among them.

    Raises:
        ResultError: the table is missing or damaged.
    """
    schema = part.schema if columns is None else pa.schema([part.schema.field(name) for name in columns])
    return to_table([measured_rows(batch, run.manifest) for batch in run.batches(part, columns)], schema)


def _tester(manifest: Manifest, samples: pa.Table, merged: Merged) -> TesterAlone | None:
    ceiling = Ceiling.of_manifest(manifest.calibration)
    return None if ceiling is None else TesterAlone(ceiling, merged, sent_meanwhile(samples, merged))


def classify(merged: Merged, *, scaled_by: float = 1.0, tester: TesterAlone | None = None) -> tuple[ClassSummary, ...]:
    """The classes of a run, the one that takes most time first.

    Args:
        merged: of the measured iterations.
        scaled_by: factor between the sizes played and those of the trace.
        tester: what the calibrated tester alone would have needed.
    """
    if not len(merged):
        return ()
    keys = np.stack([merged.kind, merged.members, _nccl_sizes(merged), merged.algorithm], axis=1)
    distinct, which = np.unique(keys, axis=0, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(which.ravel()))
    rows = [
        _summarise_class(tuple(map(int, key)), merged, chosen, scaled_by, tester)
        for key, chosen in zip(distinct, np.split(order, ends[:-1]), strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: (-row.total_ns, row.collective, row.members, row.size_bytes)))


def _nccl_sizes(merged: Merged) -> IntArray:
    multiplied = np.isin(merged.kind, [kind for kind in CommKind if nccl_size(kind, size_bytes=1, members=2) == 2])
    return np.where(multiplied, merged.size_bytes * merged.members, merged.size_bytes)


def _summarise_class(
    key: tuple[int, ...], merged: Merged, rows: IntArray, scaled_by: float, tester: TesterAlone | None
) -> ClassSummary:
    kind, members, size_bytes = CommKind(key[0]), key[1], key[2]
    cct_ns = merged.cct_ns[rows]
    valid = cct_ns >= 0
    fast = rows[_has_speed(merged, rows)] if size_bytes else rows[:0]
    factor = busbw_factor(kind, members=members)
    algbw = _bandwidth(size_bytes, median(merged.cct_ns[fast])) if factor is not None else None
    ideal = _median_ratio(merged.ideal_ns, merged.cct_ns, fast)
    ratio = _median_ratio(merged.traced_ns, merged.cct_ns, fast)
    return ClassSummary(
        collective=SEND_RECV if kind is CommKind.SEND else kind.label,
        members=members,
        size_bytes=size_bytes,
        algorithm=merged.algorithms[key[3]],
        count=len(np.unique(merged.instance[rows])),
        samples=int(np.count_nonzero(valid)),
        algbw_bytes_per_s=algbw,
        busbw_bytes_per_s=algbw * factor if algbw is not None and factor is not None else None,
        ideal_percent=None if ideal is None or factor is None else 100 * ideal,
        cct_p50_ns=median(cct_ns[valid]),
        cct_p99_ns=percentile(cct_ns[valid], 0.99),
        cct_max_ns=float(np.max(cct_ns[valid])) if np.any(valid) else None,
        skew_p50_ns=median(merged.skew_ns[rows]),
        traced_ns=_median_known(merged, rows),
        bw_ratio=None if ratio is None or factor is None else ratio * scaled_by,
        tester_percent=None if tester is None else tester.percent(rows, kind=kind, algorithm=merged.algorithms[key[3]]),
    )


def _has_speed(merged: Merged, rows: IntArray) -> BoolArray:
    return np.asarray((merged.cct_ns[rows] > 0) & ~merged.early[rows])


def _bandwidth(size_bytes: int, duration_ns: float | None) -> float | None:
    return size_bytes * NS_PER_S / duration_ns if duration_ns else None


def _median_ratio(reference_ns: IntArray, measured_ns: IntArray, rows: IntArray) -> float | None:
    """Reference over measured where measured / reference has its lower median: with one reference, at the median."""
    known = rows[reference_ns[rows] > 0]
    slowdown = median(measured_ns[known] / reference_ns[known])
    return 1 / slowdown if slowdown else None


def _median_known(merged: Merged, rows: IntArray) -> float | None:
    _, first = np.unique(merged.instance[rows], return_index=True)
    traced = merged.traced_ns[rows[first]]
    return median(traced[traced != UNKNOWN])


def _summarise_iterations(table: pa.Table, manifest: Manifest) -> IterationSummary | None:
    """Over iterations that every rank of the trace reported; None if there is none."""
    columns = {name: to_ints(table[name]) for name in table.column_names}
    numbers, where = np.unique(columns["iteration"], return_inverse=True)
    whole = [rows for n in range(len(numbers)) if len(rows := np.flatnonzero(where == n)) == manifest.trace.ranks]
    if not whole:
        return None
    jct = np.array([columns["end_ns"][rows].max() - columns["start_ns"][rows].min() for rows in whole], np.int64)
    rows = whole[median_index(jct)]
    slowest = int(rows[np.lexsort((columns["rank"][rows], -columns["end_ns"][rows]))[0]])
    jct_ns = float(np.sort(jct)[(len(jct) - 1) // 2])
    return IterationSummary(
        count=len(whole),
        jct_ns=jct_ns,
        jct_min_ns=float(jct.min()),
        jct_max_ns=float(jct.max()),
        jct_variation=variation(jct),
        roofline_ratio=_ratio(jct_ns, manifest.roofline_ns),
        sequential_roofline_ratio=_ratio(jct_ns, manifest.sequential_roofline_ns),
        slowest_rank=int(columns["rank"][slowest]),
        **{name: int(columns[name][slowest]) for name in ("compute_ns", "communication_ns", "overlap_ns")},
    )


def _ratio(measured_ns: float, reference_ns: int | None) -> float | None:
    return measured_ns / reference_ns if reference_ns else None


def _sum_up(samples: pa.Table, merged: Merged, flows: pa.Table, iteration: IterationSummary | None) -> Totals:
    iterations = len(np.unique(to_ints(samples["iteration"])))
    payload = int(to_ints(samples["bytes_sent"]).sum()) // max(iterations, 1)
    return Totals(
        samples=samples.num_rows,
        payload_bytes=payload,
        payload_bytes_per_s=_bandwidth(payload, iteration.jct_ns) if iteration else None,
        early=_count_early(samples),
        negative=int(np.count_nonzero(merged.cct_ns < 0)),
        incomplete=merged.incomplete,
        counters=sum_flows(flows),
    )


def _count_early(samples: pa.Table) -> int:
    """Of collectives only: a send need not wait for the receive to be posted."""
    labels, codes = labels_and_codes(samples["kind"])
    paired = [labels.index(kind.label) for kind in (CommKind.SEND, CommKind.RECV) if kind.label in labels]
    return int(np.count_nonzero((to_ints(samples["early"]) == 1) & ~np.isin(codes, paired)))


def _describe_tester(manifest: Manifest) -> TesterFacts:
    return TesterFacts(
        observation_point=manifest.observation_point,
        clock_source=manifest.clock.source,
        clock_error_ns=manifest.clock.error_ns,
        agents=len(manifest.hosts),
        post_lateness_median_ns=_largest([host.post_lateness_median_ns for host in manifest.hosts]),
        peak_rss_bytes=_largest([host.peak_rss_bytes for host in manifest.hosts]),
        steal_fraction=_largest([host.steal_fraction for host in manifest.hosts]),
    )


def _largest(values: list[Any]) -> int | None:
    return max((value for value in values if value is not None), default=None)
