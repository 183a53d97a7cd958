"""The table of a sweep in the layout of nccl-tests.

Charkha moves bytes and sums nothing: the type is uint8, the operation is none, and there is no result to check (#wrong
is N/A).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from emulator.statistics.dut_counters import describe_device
from emulator.statistics.flow_counters import describe_flow_counters
from emulator.statistics.nccl_conventions import count_elements
from emulator.statistics.sweep import SweepRow, SweepTable
from emulator.views.class_columns import BUSBW_FACTOR
from emulator.views.columns import Header, explain
from emulator.views.figures import describe_warning, nccl_number

_HEADER = (
    "#                                                              out-of-place                       ",
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong",
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)        ",
)
_GIGABYTES = "GB/s, 1e9 bytes per second"
_HEADERS = (
    Header("size", "array size as nccl-tests counts it", unit="bytes"),
    Header("count", "elements of the array, or of one rank's part if every rank has a part"),
    Header("type", "type of the elements; always uint8: Charkha moves bytes"),
    Header("redop", "reduction; always none: nothing is summed"),
    Header("root", "rank of the root; -1 if the collective has none"),
    Header("time", "mean cct over the iterations; cct = last done - last post over the ranks", unit="µs"),
    Header("algbw", "algorithm bandwidth: size / time; - if payload arrived early (--credits off)", unit=_GIGABYTES),
    Header("busbw", f"bus bandwidth: algbw × {BUSBW_FACTOR}", unit=_GIGABYTES),  # noqa: RUF001
    Header("#wrong", "wrong elements; always N/A: there is no result to check"),
    Header("out-of-place", "without a reduction, in-place and out-of-place are the same: there is one measurement"),
)
EXPLAIN = explain(_HEADERS, title="The layout is that of nccl-tests, a line for each size:")


def render_sweep(table: SweepTable) -> str:
    """The table as text: rows of numbers between lines that start with `#`."""
    return "\n".join(_lines(table))


def _lines(table: SweepTable) -> Iterator[str]:
    yield f"# {table.kind.label}, {table.ranks} ranks; bytes are moved, nothing is summed"
    yield f"# algorithms: {_algorithms(table.rows)}"
    yield "#"
    yield from _HEADER
    for row in table.rows:
        elements = count_elements(table.kind, size_bytes=row.size_bytes, members=table.ranks)
        yield (
            f"{row.size_bytes:>12}  {elements:>12}  {'uint8':>8}  {'none':>6}  {table.root:>6}  "
            f"{nccl_number(row.time_us):>7} {nccl_number(row.algbw_gbps):>7} {nccl_number(row.busbw_gbps):>7}"
            f" {'N/A':>7}"
        )
    yield f"# Avg bus bandwidth    : {nccl_number(table.mean_busbw_gbps)}"
    early = sum(row.early for row in table.rows)
    if early:
        yield f"# {early} measurements without bandwidth: payload arrived before a rank had posted (credits are off)"
    if table.counters:
        yield f"# Flows: {describe_flow_counters(table.counters)}"
    if device := describe_device(table.device_frames, table.dut):
        yield f"# DUT: {device}"
    for what, count in table.warnings.items():
        yield f"# Warning: {describe_warning(what, count)}"


def _algorithms(rows: Sequence[SweepRow]) -> str:
    """`direct up to 4096 B, then ring`."""
    changes = [row for row, after in pairwise(rows) if row.algorithm != after.algorithm]
    parts = [f"{row.algorithm} up to {row.size_bytes} B" for row in changes]
    return ", then ".join([*parts, rows[-1].algorithm]) if rows else "none"
