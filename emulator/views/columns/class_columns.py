"""Columns of the tables with a row per class of collectives: the summary of a run, and the percentiles per class."""

from __future__ import annotations

from emulator.results.statistics.class_summary import ClassSummary
from emulator.results.statistics.method.distribution import Distribution
from emulator.results.statistics.samples.classes import JCT
from emulator.results.verdict.tester import MOST_CORE_WAIT
from emulator.units import format_size
from emulator.views.columns.columns import Column, bold
from emulator.views.columns.figures import NONE, duration_cell, number_cell, percent_cell, rate_cell

BUSBW_FACTOR = "the factor of nccl-tests, which makes different collectives comparable"


def _wait_cell(row: ClassSummary) -> str:
    fraction = row.core_wait_fraction
    return number_cell(100 * fraction) if fraction is not None and fraction > MOST_CORE_WAIT else NONE


CLASS_COLUMNS: tuple[Column[ClassSummary], ...] = (
    Column(
        "collective",
        "kind of communication; send_recv is a send and its receive",
        cell=lambda row: row.collective,
        is_number=False,
    ),
    Column("ranks", "ranks in the process group; 1 for storage", cell=lambda row: str(row.members)),
    Column("size", "array size, counted as in nccl-tests", cell=lambda row: format_size(row.size_bytes)),
    Column("algorithm", "collective algorithm", cell=lambda row: row.algorithm or NONE, is_number=False, sacrifice=4),
    Column(
        "where",
        "between hosts: crossed the network and the device under test; in a host: did not",
        cell=lambda row: row.where or NONE,
        is_number=False,
        is_optional=True,
        folds=8,
        sacrifice=1,
    ),
    Column("count", "collectives of this class in one iteration", cell=lambda row: str(row.count), sacrifice=3),
    Column(
        "algbw\nGB/s",
        "algorithm bandwidth: size / cct, at the median cct",
        cell=lambda row: rate_cell(row.algbw_bytes_per_s),
        unit="1e9 bytes per second",
        sacrifice=5,
    ),
    Column(
        "busbw\nGB/s",
        f"bus bandwidth: algbw × {BUSBW_FACTOR}",  # noqa: RUF001
        cell=lambda row: rate_cell(row.busbw_bytes_per_s),
        unit="1e9 bytes per second",
        style=bold,
    ),
    Column(
        "ideal\n%",
        "time that the bytes left to move after the last post need at the rates of the hosts' ports / cct, at the "
        "median; 100 = as fast as the ports allow; none: a port has no rate, or a rank was late and what was left is "
        "not known",
        cell=lambda row: number_cell(row.ideal_percent),
        is_optional=True,
        sacrifice=2,
    ),
    Column(
        "cct\np50",
        "collective completion time, median: last arrival - last post over the members; ! = tester-limited: the "
        "calibrated tester alone needs nearly as long, so the row describes the tester rather than the DUT",
        cell=lambda row: duration_cell(row.cct_p50_ns) + ("!" if row.is_tester_limited else ""),
        style=bold,
    ),
    Column(
        "\np99", "99th percentile of cct", cell=lambda row: duration_cell(row.cct_p99_ns), title="cct p99", sacrifice=6
    ),
    Column("\nmax", "largest cct", cell=lambda row: duration_cell(row.cct_max_ns), title="cct max", sacrifice=7),
    Column(
        "skew\np50",
        "median time from the first to the last post of the members: waiting for the last rank",
        cell=lambda row: duration_cell(row.skew_p50_ns),
        sacrifice=8,
    ),
    Column(
        "traced",
        "median duration of the collectives in the trace: of each, the shortest duration of its members",
        cell=lambda row: duration_cell(row.traced_ns),
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
        cell=lambda row: number_cell(row.bw_ratio),
        is_optional=True,
        sacrifice=1,
    ),
)


DISTRIBUTION_COLUMNS: tuple[Column[Distribution], ...] = (
    Column(
        "class",
        "collective, ranks, size and algorithm; JCT is the whole iteration",
        cell=lambda one: "JCT" if one.key.collective == JCT else str(one.key),
        is_number=False,
        folds=24,
    ),
    Column("n", "number of measurements", cell=lambda one: str(one.samples)),
    Column("p50", "median", cell=lambda one: duration_cell(one.p50_ns)),
    Column(
        "95 % interval",
        "95 % bootstrap interval of the median, with iterations as units: describes this run, not the next one",
        cell=lambda one: _interval(one),
        sacrifice=2,
    ),
    Column("p90", "90th percentile, nearest rank; needs 10 measurements", cell=lambda one: duration_cell(one.p90_ns)),
    Column("p95", "95th percentile; needs 20", cell=lambda one: duration_cell(one.p95_ns), sacrifice=3),
    Column("p99", "99th percentile; needs 100", cell=lambda one: duration_cell(one.p99_ns)),
    Column("p99.9", "99.9th percentile; needs 1,000", cell=lambda one: duration_cell(one.p999_ns), sacrifice=4),
    Column("max", "largest", cell=lambda one: duration_cell(one.max_ns), sacrifice=1),
    Column("CV", "coefficient of variation: standard deviation / mean", cell=lambda one: percent_cell(one.variation)),
)


def _interval(one: Distribution) -> str:
    interval = one.median_interval_ns
    return NONE if interval is None else f"{duration_cell(interval.low)} to {duration_cell(interval.high)}"
