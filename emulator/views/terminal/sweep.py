"""A sweep for a terminal: in the layout of nccl-tests, or with the columns of Charkha."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from emulator.results.statistics.sweep import SweepTable
from emulator.results.statistics.traffic.dut_counters import describe_device
from emulator.units import NS_PER_US
from emulator.views.columns.class_columns import BUSBW_FACTOR, SWEEP_COLUMNS
from emulator.views.columns.columns import Header, explain, paragraphs
from emulator.views.columns.figures import describe_warning
from emulator.views.columns.worst_columns import describe_worst_step
from emulator.views.nccl_table import NcclRow, nccl_table
from emulator.views.network_text import describe_flows, describe_paths
from emulator.views.terminal.table import FittedTable

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
EXPLAIN = paragraphs(
    explain(_HEADERS, title="The layout is that of nccl-tests, one line per size:"),
    explain(SWEEP_COLUMNS, title=f"With --columns {CHARKHA}; cct = last arrival - last post over the ranks:"),
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
        yield FittedTable(SWEEP_COLUMNS, table.rows)
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
