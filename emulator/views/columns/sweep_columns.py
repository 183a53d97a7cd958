"""Columns of the table of a sweep over sizes."""

from __future__ import annotations

from collections.abc import Callable

from emulator.results.statistics.bench.sweep import SweepRow
from emulator.units import NS_PER_US, format_size
from emulator.views.columns.class_columns import BUSBW_FACTOR
from emulator.views.columns.columns import Column, bold, unshown
from emulator.views.columns.figures import duration_cell, number_cell, rate_cell


def _over(name: str, unit: float) -> Callable[[SweepRow], float | None]:
    """The attribute in another unit."""
    return lambda row: None if getattr(row, name) is None else getattr(row, name) / unit


SWEEP_COLUMNS: tuple[Column[SweepRow], ...] = (
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
    *(unshown(f"{name}_us", _over(f"{name}_ns", NS_PER_US)) for name in ("time", "min", "max", "p50", "p95", "p99")),
    *(unshown(f"{name}_gbps", _over(f"{name}_bytes_per_s", 1e9)) for name in ("algbw", "busbw")),
)
"""The last are those of version 0.1; the next version drops them."""
