"""The table of a sweep in nccl-tests' layout, and the same facts for machines.

Time is the mean of the iterations' cct, as nccl-tests averages; algbw = size / time, GB = 1e9 bytes. Charkha moves
bytes and sums nothing: the type is uint8, the operation none, and there is no result to check (#wrong is N/A).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from emulator.run_folder.record import Run
from emulator.run_folder.schema import Part
from emulator.statistics.collectives import MERGE_COLUMNS, busbw_factor, merge
from emulator.statistics.dut_counts import count_dut, in_words
from emulator.statistics.flows import flows_in_words, sum_flows
from emulator.statistics.stats import percentile, variation
from emulator.statistics.summary import measured_rows
from emulator.trace.model import CommKind, IntArray
from emulator.units import NS_PER_US
from emulator.views.terminal.summary_table import warning_in_words

_HEADER = (
    "#                                                              out-of-place                       ",
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong",
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)        ",
)
PARTED = (
    CommKind.ALL_GATHER,
    CommKind.REDUCE_SCATTER,
    CommKind.REDUCE_SCATTER_BLOCK,
    CommKind.ALL_TO_ALL,
    CommKind.GATHER,
    CommKind.SCATTER,
)


@dataclass(frozen=True, slots=True)
class SweepRow:
    """One size. None: no speed is known, because payload ran ahead (credits off) or the group has one rank.

    Attributes:
        size_bytes: as nccl-tests counts it.
        iterations: measurements behind the numbers.
        time_us, min_us, max_us: mean, smallest, largest cct, µs.
        p50_us, p95_us, p99_us: nearest rank; None where the iterations are too few.
        cv_percent: coefficient of variation of the cct.
        algbw_gbps, busbw_gbps: 1e9 bytes per second, from time_us.
        early: iterations whose payload came before a rank had posted.
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
    """A whole sweep; `counters` of all its flows, `dut` what the device lost and marked, `warnings` and how often."""

    kind: CommKind
    ranks: int
    root: int
    rows: Sequence[SweepRow]
    counters: Mapping[str, int] = field(default_factory=dict)
    warnings: Mapping[str, int] = field(default_factory=dict)
    dut: Mapping[str, int] = field(default_factory=dict)

    @property
    def mean_busbw_gbps(self) -> float | None:
        """nccl-tests' "Avg bus bandwidth": the mean over the sizes that have one."""
        known = [row.busbw_gbps for row in self.rows if row.busbw_gbps is not None]
        return sum(known) / len(known) if known else None


def sweep_table(run: Run, *, kind: CommKind, ranks: int, sizes: Sequence[int]) -> SweepTable:
    """Sum a sweep up: its k-th collective has the k-th of `sizes`.

    Raises:
        ResultError: the samples are missing or damaged.
    """
    merged = merge(measured_rows(run.table(Part.SAMPLES, MERGE_COLUMNS), run.manifest))
    rooted = kind in (CommKind.BROADCAST, CommKind.REDUCE, CommKind.GATHER, CommKind.SCATTER)
    rows = []
    for number, size in enumerate(sizes):
        mine = merged.instance == number
        if np.any(mine):
            algorithm = merged.algorithms[int(merged.algorithm[mine][0])]
            rows.append(_row(kind, ranks, size, algorithm, merged.cct_ns[mine], int(merged.early[mine].sum())))
    counters = sum_flows(run.table(Part.FLOWS))
    dut = count_dut(run.table(Part.COUNTERS), run.manifest)
    return SweepTable(kind, ranks, 0 if rooted else -1, rows, counters, run.manifest.warnings, dut)


def _row(kind: CommKind, ranks: int, size_bytes: int, algorithm: str, cct_ns: IntArray, early: int) -> SweepRow:
    micros = cct_ns / NS_PER_US
    mean = float(np.mean(micros))
    factor = busbw_factor(kind, members=ranks)
    has_speed = factor is not None and not early and mean > 0
    algbw = size_bytes / mean / 1e3 if has_speed else None
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


def render_sweep(table: SweepTable) -> str:
    """The table as text, lines of `#` around rows of numbers."""
    return "\n".join(_lines(table))


def _lines(table: SweepTable) -> Iterator[str]:
    yield f"# {table.kind.label}, {table.ranks} ranks; bytes are moved, nothing is summed"
    yield f"# algorithms: {_algorithms(table.rows)}"
    yield "#"
    yield from _HEADER
    for row in table.rows:
        yield (
            f"{row.size_bytes:>12}  {_elements(table, row):>12}  {'uint8':>8}  {'none':>6}  {table.root:>6}  "
            f"{format_number(row.time_us):>7} {format_number(row.algbw_gbps):>7} {format_number(row.busbw_gbps):>7}"
            f" {'N/A':>7}"
        )
    yield f"# Avg bus bandwidth    : {format_number(table.mean_busbw_gbps)}"
    early = sum(row.early for row in table.rows)
    if early:
        yield f"# {early} measurements without a speed: payload came before a rank had posted (credits are off)"
    if table.counters:
        yield f"# Flows: {flows_in_words(table.counters)}"
    if table.dut:
        yield f"# DUT: {in_words(table.dut)}"
    for what, count in table.warnings.items():
        yield f"# Warning: {warning_in_words(what, count)}"


def _elements(table: SweepTable, row: SweepRow) -> int:
    """What nccl-tests counts: elements of the array, or of one rank's part of it where ranks have parts."""
    return row.size_bytes // table.ranks if table.kind in PARTED else row.size_bytes


def _algorithms(rows: Sequence[SweepRow]) -> str:
    """`direct up to 4096 B, then ring`."""
    changes = [row for row, after in pairwise(rows) if row.algorithm != after.algorithm]
    parts = [f"{row.algorithm} up to {row.size_bytes} B" for row in changes]
    return ", then ".join([*parts, rows[-1].algorithm]) if rows else "none"


def format_number(value: float | None) -> str:
    """Seven characters up to ten million: two decimals as in nccl-tests, but four below 1 and fewer from 1,000 on.

    An exponent only where zeros would hide the value.
    """
    if value is None:
        return "-"
    size = abs(value)
    if 0 < size < 1e-4:
        return f"{value:.1e}"
    decimals = 4 if size < 1 else 2 if size < 1000 else 1 if size < 10_000 else 0
    return f"{value:.{decimals}f}"


def sweep_to_json(table: SweepTable) -> dict[str, Any]:
    """The facts of the table and the statistics that it has no room for; null where the table has none."""
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
