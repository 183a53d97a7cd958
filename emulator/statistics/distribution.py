"""How the measurements of a run are distributed, class by class, and which of them count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emulator.statistics.classes import ClassKey
from emulator.statistics.measurements import Measurements, Times
from emulator.statistics.resampling import Interval, median_interval
from emulator.statistics.stats import variation


@dataclass(frozen=True, slots=True)
class Distribution:
    """Of one class in one run, ns. None is what the number of samples cannot carry.

    Attributes:
        samples: measurements that count; `iterations` they are of.
        early: among them, those whose payload came before its rank had posted: their time is not network time.
        negative: left out for a time below zero.
        median_interval: 95 % bootstrap interval of p50, iterations as units; it speaks of this run, not of the next.
        variation: coefficient of variation.
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


def distributions(found: Measurements) -> Sequence[Distribution]:
    """The classes of a run, the iteration first, then those that take most time together."""
    order = sorted(found.classes.items(), key=lambda item: -int(item[1].time_ns.sum()))
    return [distribution(key, times) for key, times in order]


def distribution(key: ClassKey, times: Times) -> Distribution:
    """Of one class."""
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
