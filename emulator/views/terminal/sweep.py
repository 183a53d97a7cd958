"""A sweep for a terminal: in the layout of nccl-tests, or with the columns of Charkha."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from emulator.results.statistics.bench.sweep import SweepRow, SweepTable
from emulator.results.statistics.traffic.dut_counters import describe_device
from emulator.units import NS_PER_US, format_size
from emulator.views.columns.class_columns import BUSBW_FACTOR
from emulator.views.columns.columns import Column, Header, bold, explain, paragraphs
from emulator.views.columns.figures import describe_warning, duration_cell, number_cell, rate_cell
from emulator.views.columns.worst_step_columns import describe_worst_step
from emulator.views.terminal.table import FittedTable
from emulator.views.text.nccl_table import NcclRow, nccl_table
from emulator.views.text.network_text import describe_flows, describe_paths

NCCL_TESTS, CHARKHA = "nccl-tests", "charkha"
LAYOUTS = (NCCL_TESTS, CHARKHA)
_GIGABYTES = "GB/s, 1e9 bytes per second"
_HEADERS = (
    Header("size", "array size, counted as in nccl-tests", unit="bytes"),
    Header("count", "elements of the array, or of one rank's part if every rank has a part"),
    Header("type", "type of the elements; always uint8: Charkha moves bytes"),
    Header("redop", "reduction; always none: data is not summed"),
    Header("root", "rank of the root; -1 if the collective has none"),
    Header("time", "mean cct over the iterations; cct = last arrival - last post over the ranks", unit="µs"),
    Header("algbw", "algorithm bandwidth: size / time; N/A if payload arrived early (--credits off)", unit=_GIGABYTES),
    Header("busbw", f"bus bandwidth at the mean cct, busbw_mean in rules: algbw × {BUSBW_FACTOR}", unit=_GIGABYTES),  # noqa: RUF001
    Header("#wrong", "wrong elements; always N/A: there is no result to check"),
    Header("in-place", "repeats out-of-place: without a reduction, both are the same"),
)
_COLUMNS: tuple[Column[SweepRow], ...] = (
    Column("size", "array size, counted as in nccl-tests", key="size_bytes", show=format_size),
    Column("algorithm", "collective algorithm", key="algorithm", is_number=False, sacrifice=4),
    Column("count", "measured iterations", key="iterations", sacrifice=3),
    Column("mean", "mean cct", key="time_ns", show=duration_cell, style=bold),
    Column("min", "smallest cct", key="min_ns", show=duration_cell, sacrifice=2),
    Column("p50", "median of the cct", key="p50_ns", show=duration_cell, is_optional=True),
    Column("p95", "95th percentile", key="p95_ns", show=duration_cell, is_optional=True, sacrifice=1),
    Column("p99", "99th percentile", key="p99_ns", show=duration_cell, is_optional=True),
    Column("max", "largest cct", key="max_ns", show=duration_cell, sacrifice=2),
    Column("cv\n%", "coefficient of variation", key="cv_percent", show=number_cell, is_optional=True),
    Column("algbw\nGB/s", "size / mean", key="algbw_bytes_per_s", show=rate_cell, sacrifice=5),
    Column(
        "busbw\nGB/s",
        f"bus bandwidth at the mean cct, busbw_mean in rules: algbw × {BUSBW_FACTOR}",  # noqa: RUF001
        key="busbw_bytes_per_s",
        show=rate_cell,
        unit="1e9 bytes per second",
        style=bold,
    ),
)
EXPLAIN = paragraphs(
    explain(_HEADERS, title="The layout is that of nccl-tests, one line per size:"),
    explain(_COLUMNS, title=f"With --columns {CHARKHA}; cct = last arrival - last post over the ranks:"),
)


def render_sweep(table: SweepTable, *, layout: str, headline: str, last: Sequence[str]) -> Iterator[RenderableType]:
    """Tables and lines, to be printed one below the other.

    Args:
        headline: the first line.
        last: the last lines.
        layout: of LAYOUTS. As nccl-tests, every line that is not a row of numbers starts with `#`.
    """
    mark = "# " if layout == NCCL_TESTS else ""
    yield mark + headline
    if not table.rows:
        yield f"{mark}Nothing was measured"
    elif layout == NCCL_TESTS:
        yield "\n".join(_as_nccl_tests(table))
    else:
        yield FittedTable(_COLUMNS, table.rows)
    yield from (mark + note for note in (*_notes(table), *last))


def _as_nccl_tests(table: SweepTable) -> Iterator[str]:
    rows = [
        NcclRow(table.kind, table.ranks, row.size_bytes, row.algorithm, row.time_ns / NS_PER_US, not row.early)
        for row in table.rows
    ]
    trials = table.trials
    return nccl_table(rows, label=table.label, warmup=trials.warmup, iterations=trials.included)


def _notes(table: SweepTable) -> Iterator[str]:
    early = sum(row.early for row in table.rows)
    if early:
        yield f"{early} measurements without bandwidth: payload arrived before a rank had posted (credits are off)"
    if table.counters:
        yield f"Flows: {describe_flows(table.counters)}"
    if table.paths:
        yield f"Paths: {describe_paths(table.paths)}"
    if device := describe_device(table.device_frames, table.dut):
        yield f"DUT: {device}"
    for one in table.worst_steps[:1]:
        yield f"Worst step: {describe_worst_step(one)}"
    for what, count in table.warnings.items():
        yield f"Warning: {describe_warning(what, count)}"
