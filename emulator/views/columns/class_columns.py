"""Columns of the tables with a row per class of collectives: the summary of a run, and the percentiles per class.

The table of a sweep over sizes has a row per size instead.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.results.statistics.class_summary import ClassSummary
from emulator.results.statistics.method.distribution import Distribution
from emulator.results.statistics.samples.classes import JCT
from emulator.results.statistics.sweep import SweepRow
from emulator.results.statistics.tester_model import MOST_CORE_WAIT
from emulator.results.statistics.uncertainty import stated
from emulator.units import NS_PER_US, format_size
from emulator.views.columns.columns import Column, bold, unshown
from emulator.views.columns.figures import NONE, duration_cell, number_cell, percent_cell, rate_cell

BUSBW_FACTOR = "the factor of nccl-tests, which makes different collectives comparable"


def _wait_cell(row: ClassSummary) -> str:
    fraction = row.core_wait_fraction
    return number_cell(100 * fraction) if fraction is not None and fraction > MOST_CORE_WAIT else NONE


CLASS_COLUMNS: tuple[Column[ClassSummary], ...] = (
    Column(
        "collective", "kind of communication; send_recv is a send and its receive", key="collective", is_number=False
    ),
    Column("ranks", "ranks in the process group; 1 for storage", key="members"),
    Column("size", "array size, counted as in nccl-tests", key="size_bytes", show=format_size),
    Column("algorithm", "collective algorithm", key="algorithm", is_number=False, sacrifice=4),
    Column(
        "where",
        "between hosts: crossed the network and the device under test; in a host: did not",
        key="where",
        is_number=False,
        is_optional=True,
        folds=8,
        sacrifice=1,
    ),
    Column("count", "collectives of this class in one iteration", key="count", sacrifice=3),
    Column(
        "algbw\nGB/s",
        "algorithm bandwidth: size / cct, at the median cct",
        key="algbw_bytes_per_s",
        show=rate_cell,
        unit="1e9 bytes per second",
        sacrifice=5,
    ),
    Column(
        "busbw\nGB/s",
        f"bus bandwidth: algbw × {BUSBW_FACTOR}",  # noqa: RUF001
        key="busbw_bytes_per_s",
        show=rate_cell,
        unit="1e9 bytes per second",
        style=bold,
    ),
    Column(
        "ideal\n%",
        "time that the bytes left to move after the last post need at the rates of the hosts' ports / cct, at the "
        "median; 100 = as fast as the ports allow; none: a port has no rate, or a rank was late and what was left is "
        "not known",
        key="ideal_percent",
        show=number_cell,
        is_optional=True,
        sacrifice=2,
    ),
    Column(
        "cct\np50",
        "collective completion time, median: last arrival - last post over the members; ! = tester-limited: nearly all "
        "of it is the tester's own time, so cct describes the tester rather than the DUT",
        key="cct_p50_ns",
        cell=lambda row: duration_cell(row.cct_p50_ns) + ("!" if row.is_tester_limited else ""),
        style=bold,
    ),
    Column(
        "\n± U",
        "expanded uncertainty of cct p50 (k = 2): with errors of clocks, time stamps and chance, the tester's own time "
        "not among them; none: not stated (`charkha runs show RUN --explain` and --json say why)",
        cell=lambda row: duration_cell(stated(row.uncertainty.get("cct_p50_ns"))),
        title="cct ± U",
        is_optional=True,
        sacrifice=5,
    ),
    Column("\np99", "99th percentile of cct", key="cct_p99_ns", show=duration_cell, title="cct p99", sacrifice=6),
    Column("\nmax", "largest cct", key="cct_max_ns", show=duration_cell, title="cct max", sacrifice=7),
    Column(
        "network\np50",
        "the network's part of cct, median: along the chain of messages that ended last, from the driver's time stamp "
        "of the first frame of each to the receiving kernel's of its last; the rest of cct is the tester's; none: no "
        "time stamps, or less than half of the measurements have them",
        key="network_p50_ns",
        show=duration_cell,
        is_optional=True,
        style=bold,
        sacrifice=1,
    ),
    Column(
        "tester\n%",
        "share of the tester in cct, at the median: what is not the network's part; where that is not known, the time "
        "that the calibrated tester adds to the ideal time",
        key="tester_percent",
        show=number_cell,
        is_optional=True,
        sacrifice=2,
    ),
    Column(
        "network\nbusbw",
        "bus bandwidth of the network's part, at its median: as if the tester took no time",
        key="network_busbw_bytes_per_s",
        show=rate_cell,
        unit="1e9 bytes per second",
        is_optional=True,
        sacrifice=10,
    ),
    Column(
        "network\nideal %",
        "ideal time / the network's part, at the median; above 100 where switches pass a burst faster than the rate",
        key="network_ideal_percent",
        show=number_cell,
        is_optional=True,
        sacrifice=9,
    ),
    Column(
        "skew\np50",
        "median time from the first to the last post of the members: waiting for the last rank",
        key="skew_p50_ns",
        show=duration_cell,
        sacrifice=8,
    ),
    Column(
        "traced",
        "median duration of the collectives in the trace: of each, the shortest duration of its members",
        key="traced_ns",
        show=duration_cell,
        is_optional=True,
        sacrifice=9,
    ),
    Column(
        "waited\n%",
        "limit of the tester: share of the time of these collectives in which an agent was ready to run and had no "
        f"core, if more than {100 * MOST_CORE_WAIT:.0f} %; the times then describe the tester",
        cell=_wait_cell,
        is_optional=True,
        sacrifice=1,
    ),
    Column(
        "bw\nratio",
        "measured bandwidth / bandwidth in the trace, at the median; above 1: faster than the recording",
        key="bw_ratio",
        show=number_cell,
        is_optional=True,
        sacrifice=1,
    ),
    unshown("tester_limited", lambda row: row.is_tester_limited),
)
SAMPLES: Column[ClassSummary] = Column("n", "number of measurements", key="samples")
"""In reports, after the others."""
DISTRIBUTION_COLUMNS: tuple[Column[Distribution], ...] = (
    Column(
        "class",
        "collective, ranks, size and algorithm; JCT is the whole iteration",
        cell=lambda one: "JCT" if one.key.collective == JCT else str(one.key),
        is_number=False,
        folds=24,
    ),
    Column("n", "number of measurements", key="samples"),
    Column("p50", "median", key="p50_ns", show=duration_cell),
    Column(
        "95 % interval",
        "95 % bootstrap interval of the median, with iterations as units: describes this run, not the next one",
        cell=lambda one: _interval(one),
        sacrifice=2,
    ),
    Column("p90", "90th percentile, nearest rank; needs 10 measurements", key="p90_ns", show=duration_cell),
    Column("p95", "95th percentile; needs 20", key="p95_ns", show=duration_cell, sacrifice=3),
    Column("p99", "99th percentile; needs 100", key="p99_ns", show=duration_cell),
    Column("p99.9", "99.9th percentile; needs 1,000", key="p999_ns", show=duration_cell, sacrifice=4),
    Column("max", "largest", key="max_ns", show=duration_cell, sacrifice=1),
    Column("CV", "coefficient of variation: standard deviation / mean", key="variation", show=percent_cell),
)


def _interval(one: Distribution) -> str:
    interval = one.median_interval_ns
    return NONE if interval is None else f"{duration_cell(interval.low)} to {duration_cell(interval.high)}"


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
