"""A sweep over sizes: one row per size with its times and bandwidths, as nccl-tests defines them.

Time is the mean cct over the iterations, as nccl-tests averages; algbw = size / time and 1 GB = 1e9 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from emulator.run_folder.reader import Run
from emulator.run_folder.schema import Part
from emulator.statistics.collectives import MERGE_COLUMNS, merge
from emulator.statistics.descriptive import percentile, variation
from emulator.statistics.dut_counters import DeviceFrames, device_frames, sum_dut_counters
from emulator.statistics.flow_counters import sum_flow_counters
from emulator.statistics.measured_rows import read_measured
from emulator.statistics.nccl_conventions import busbw_factor, root_of
from emulator.trace.model import CommKind, IntArray
from emulator.units import NS_PER_US


@dataclass(frozen=True, slots=True)
class SweepRow:
    """One size of a sweep.

    Attributes:
        size_bytes: array size as nccl-tests counts it.
        algorithm: collective algorithm used at this size.
        iterations: number of measurements.
        time_us, min_us, max_us: mean, smallest and largest cct, µs.
        p50_us, p95_us, p99_us: nearest-rank percentiles, µs; None if there are too few iterations.
        cv_percent: coefficient of variation of the cct, %.
        algbw_gbps, busbw_gbps: 1e9 bytes per second, from `time_us`; None if unknown, because payload arrived
            early (credits off), the time is not positive, or the group has one rank.
        early: iterations in which payload arrived before a rank had posted.
    """

    size_bytes: int
    algorithm: str
    iterations: int
    time_us: float
    min_us: float
    max_us: float
    p50_us: float | None
    p95_us: float | None
    p99_us: float | None
    cv_percent: float | None
    algbw_gbps: float | None
    busbw_gbps: float | None
    early: int


@dataclass(frozen=True, slots=True)
class SweepTable:
    """A whole sweep.

    Attributes:
        root: rank of the root; -1 if the collective has none.
        counters: flow counters, summed over all flows.
        warnings: warning -> number of occurrences.
        dut: frames that the device under test dropped or marked.
        device_frames: what went through each node of the device under test.
    """

    kind: CommKind
    ranks: int
    root: int
    rows: Sequence[SweepRow]
    counters: Mapping[str, int] = field(default_factory=dict)
    warnings: Mapping[str, int] = field(default_factory=dict)
    dut: Mapping[str, int] = field(default_factory=dict)
    device_frames: tuple[DeviceFrames, ...] = ()

    @property
    def mean_busbw_gbps(self) -> float | None:
        """nccl-tests' "Avg bus bandwidth": mean over the sizes that have one, 1e9 bytes per second."""
        known = [row.busbw_gbps for row in self.rows if row.busbw_gbps is not None]
        return sum(known) / len(known) if known else None


def sweep_table(run: Run, *, kind: CommKind, ranks: int, sizes: Sequence[int]) -> SweepTable:
    """Summarise a sweep.

    Args:
        run: a run in which the k-th collective of an iteration has the k-th size.
        kind: the collective.
        ranks: group size.
        sizes: bytes, in the order played; a size without measurements has no row.

    Raises:
        ResultError: the samples are missing or damaged.
    """
    merged = merge(read_measured(run, Part.SAMPLES, MERGE_COLUMNS))
    rows = []
    for number, size in enumerate(sizes):
        mine = merged.instance == number
        if np.any(mine):
            algorithm = merged.algorithms[int(merged.algorithm[mine][0])]
            rows.append(_row(kind, ranks, size, algorithm, merged.cct_ns[mine], int(merged.early[mine].sum())))
    counters = sum_flow_counters(run.table(Part.FLOWS))
    readings = run.table(Part.COUNTERS)
    dut, frames = sum_dut_counters(readings, run.manifest), device_frames(readings, run.manifest)
    return SweepTable(kind, ranks, root_of(kind), rows, counters, run.manifest.warnings, dut, frames)


def _row(kind: CommKind, ranks: int, size_bytes: int, algorithm: str, cct_ns: IntArray, early: int) -> SweepRow:
    micros = cct_ns / NS_PER_US
    mean = float(np.mean(micros))
    factor = busbw_factor(kind, members=ranks)
    algbw = size_bytes / mean / 1e3 if factor is not None and not early and mean > 0 else None
    spread = variation(micros)
    return SweepRow(
        size_bytes=size_bytes,
        algorithm=algorithm,
        iterations=len(micros),
        time_us=mean,
        min_us=float(np.min(micros)),
        max_us=float(np.max(micros)),
        p50_us=percentile(micros, 0.5),
        p95_us=percentile(micros, 0.95),
        p99_us=percentile(micros, 0.99),
        cv_percent=None if spread is None else 100 * spread,
        algbw_gbps=algbw,
        busbw_gbps=None if algbw is None or factor is None else algbw * factor,
        early=early,
    )


def sweep_to_json(table: SweepTable) -> dict[str, Any]:
    """The sweep as a JSON document, including the statistics that the printed table omits; unknown values are null."""
    return {
        "collective": table.kind.label,
        "ranks": table.ranks,
        "root": table.root,
        "rows": [asdict(row) for row in table.rows],
        "mean_busbw_gbps": table.mean_busbw_gbps,
        "counters": dict(table.counters),
        "dut": dict(table.dut),
        "warnings": dict(table.warnings),
        "units": {"time": "us, mean of cct over iterations", "bandwidth": "1e9 bytes per second"},
    }
