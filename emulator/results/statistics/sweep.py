"""A sweep over sizes: one row per size with its times and bandwidths, as nccl-tests defines them.

Time is the mean cct over the iterations, as nccl-tests averages; algbw = size / time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from emulator.results.run_folder.manifest import Trials
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.method.descriptive import percentile, variation
from emulator.results.statistics.method.nccl_conventions import busbw_factor, root_of
from emulator.results.statistics.samples.collectives import MERGE_COLUMNS, MergedSamples, merge
from emulator.results.statistics.samples.measured_rows import read_measured
from emulator.results.statistics.traffic.dut_counters import DeviceFrames, device_frames, run_warnings, sum_dut_counters
from emulator.results.statistics.traffic.flow_counters import sum_flow_counters
from emulator.results.statistics.traffic.network_traffic import PathCounts, path_counts
from emulator.results.statistics.worst.worst_steps import WorstStep, worst_steps_of
from emulator.trace.meaning.model import BoolArray, CommKind, IntArray
from emulator.trace.meaning.names import class_name
from emulator.units import NS_PER_S


@dataclass(frozen=True, slots=True)
class SweepRow:
    """One size of a sweep.

    Attributes:
        size_bytes: array size, counted as in nccl-tests.
        algorithm: collective algorithm used at this size.
        iterations: number of measurements.
        p50_ns, p95_ns, p99_ns: nearest-rank percentiles; None if there are too few iterations.
        algbw_bytes_per_s, busbw_bytes_per_s: from `time_ns`, where a rank was late of the bytes that had still to
            move; None if unknown, because payload arrived early (credits off), the time is not positive, or the group
            has one rank.
        early: iterations in which payload arrived before a rank had posted.
    """

    size_bytes: int
    algorithm: str
    iterations: int
    time_ns: float
    min_ns: int
    max_ns: int
    p50_ns: float | None
    p95_ns: float | None
    p99_ns: float | None
    cv_percent: float | None
    algbw_bytes_per_s: float | None
    busbw_bytes_per_s: float | None
    early: int


@dataclass(frozen=True, slots=True)
class SweepTable:
    """A whole sweep.

    Attributes:
        root: rank of the root; -1 if the collective has none.
        trials: iterations that were measured, and those before them.
        counters: flow counters, summed over all flows.
        paths: of sprayed flows.
        warnings: warning -> number of occurrences.
        dut: frames that the device under test dropped or marked.
        device_frames: what went through each node of the device under test.
        worst_steps: of the recorded ones, see worst_steps.py.
    """

    kind: CommKind
    ranks: int
    root: int
    rows: Sequence[SweepRow]
    trials: Trials = field(default_factory=Trials)
    counters: Mapping[str, int] = field(default_factory=dict)
    paths: tuple[PathCounts, ...] = ()
    warnings: Mapping[str, int] = field(default_factory=dict)
    dut: Mapping[str, int] = field(default_factory=dict)
    device_frames: tuple[DeviceFrames, ...] = ()
    worst_steps: tuple[WorstStep, ...] = ()

    @property
    def label(self) -> str:
        """Name of what was swept."""
        return class_name(self.kind)

    @property
    def mean_busbw_bytes_per_s(self) -> float | None:
        """nccl-tests' "Avg bus bandwidth": mean over the sizes that have one."""
        known = [row.busbw_bytes_per_s for row in self.rows if row.busbw_bytes_per_s is not None]
        return sum(known) / len(known) if known else None


def sweep_table(run: Run, *, kind: CommKind, ranks: int, sizes: Sequence[int]) -> SweepTable:
    """Summarise a sweep.

    Args:
        run: a run in which the k-th collective of an iteration has the k-th size.
        kind: the collective; SEND for pairs, whose time is that of the slowest pair.
        sizes: bytes, in the order played; a size without measurements has no row.

    Raises:
        ResultError: the samples are missing or damaged.
    """
    merged = merge(read_measured(run, RunTable.SAMPLES, MERGE_COLUMNS), until=run.manifest.cct_until)
    rows = []
    for number, size in enumerate(sizes):
        is_pair = kind is CommKind.SEND
        mine = merged.size_bytes == size if is_pair else merged.instance == number
        cct_ns = _of_all_pairs(merged, mine, ranks) if is_pair else merged.cct_ns[mine]
        if len(cct_ns):
            algorithm = merged.algorithms[int(merged.algorithm[mine][0])]
            whole_ns = cct_ns if is_pair else merged.whole_ns[merged.comparable(np.flatnonzero(mine))]
            mean_ns = float(np.mean(whole_ns)) if len(whole_ns) else 0.0
            rows.append(_row(kind, ranks, size, algorithm, cct_ns, mean_ns, int(merged.early[mine].sum())))
    readings = run.table(RunTable.COUNTERS)
    return SweepTable(
        kind,
        ranks,
        root_of(kind),
        rows,
        trials=run.manifest.trials,
        counters=sum_flow_counters(run.table(RunTable.FLOWS)),
        warnings=run_warnings(run.manifest),
        dut=sum_dut_counters(readings, run.manifest),
        device_frames=device_frames(readings, run.manifest),
        worst_steps=worst_steps_of(run),
        paths=path_counts(run.manifest),
    )


def _of_all_pairs(merged: MergedSamples, mine: BoolArray, pairs: int) -> IntArray:
    """Per iteration that all pairs completed, the largest cct."""
    iterations, at, counts = np.unique(merged.iteration[mine], return_inverse=True, return_counts=True)
    largest: IntArray = np.full(len(iterations), np.iinfo(np.int64).min)
    np.maximum.at(largest, at, merged.cct_ns[mine])
    complete: IntArray = largest[counts == pairs]
    return complete


def _row(
    kind: CommKind, ranks: int, size_bytes: int, algorithm: str, cct_ns: IntArray, whole_ns: float, early: int
) -> SweepRow:
    factor = busbw_factor(kind, members=ranks)
    algbw = size_bytes / whole_ns * NS_PER_S if factor is not None and not early and whole_ns > 0 else None
    spread = variation(cct_ns)
    return SweepRow(
        size_bytes=size_bytes,
        algorithm=algorithm,
        iterations=len(cct_ns),
        time_ns=float(np.mean(cct_ns)),
        min_ns=int(np.min(cct_ns)),
        max_ns=int(np.max(cct_ns)),
        p50_ns=percentile(cct_ns, 0.5),
        p95_ns=percentile(cct_ns, 0.95),
        p99_ns=percentile(cct_ns, 0.99),
        cv_percent=None if spread is None else 100 * spread,
        algbw_bytes_per_s=algbw,
        busbw_bytes_per_s=None if algbw is None or factor is None else algbw * factor,
        early=early,
    )
