"""How the measurements of a run are distributed, class by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emulator.results.statistics.method.bootstrap import Interval, median_interval
from emulator.results.statistics.method.descriptive import variation
from emulator.results.statistics.samples.classes import ClassKey
from emulator.results.statistics.samples.iterations import Measurements, Times


@dataclass(frozen=True, slots=True)
class Distribution:
    """Distribution of one class in one run, ns. A statistic is None if there are too few samples for it.

    Attributes:
        samples: measurements that count.
        iterations: number of iterations that they belong to.
        early: how many of them had payload that arrived before its rank had posted: not a pure network time.
        negative: measurements left out because their time is below zero.
        median_interval_ns: 95 % bootstrap interval of p50, resampled by iteration. It holds for this run, not for the
            next one.
    """

    key: ClassKey
    samples: int
    iterations: int
    early: int
    negative: int
    p50_ns: float | None
    median_interval_ns: Interval | None
    p90_ns: float | None
    p95_ns: float | None
    p99_ns: float | None
    p999_ns: float | None
    max_ns: float | None
    variation: float | None


def distributions(measured: Measurements) -> Sequence[Distribution]:
    """The distributions of all classes, the one with the largest total time first."""
    order = sorted(measured.classes.items(), key=lambda item: -int(item[1].time_ns.sum()))
    return [distribution(key, times) for key, times in order]


def distribution(key: ClassKey, times: Times) -> Distribution:
    """The distribution of one class."""
    return Distribution(
        key=key,
        samples=len(times),
        iterations=len(set(times.iteration.tolist())),
        early=times.early,
        negative=times.negative,
        p50_ns=times.percentile_ns(0.5),
        median_interval_ns=median_interval(times.time_ns, times.iteration),
        p90_ns=times.percentile_ns(0.9),
        p95_ns=times.percentile_ns(0.95),
        p99_ns=times.percentile_ns(0.99),
        p999_ns=times.percentile_ns(0.999),
        max_ns=float(times.time_ns.max()) if len(times) else None,
        variation=variation(times.time_ns),
    )
