"""What happened to packets in the runs of two groups: counters that can explain a difference in time.

Counters belong to a whole run, not to a class, and no test is made on them: they are a hint where to look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.metrics import METRICS
from emulator.results.statistics.traffic.dut_counters import MARKS, dropped_frames, sum_dut_counters
from emulator.results.statistics.traffic.flow_counters import sum_flow_counters

if TYPE_CHECKING:
    from emulator.results.comparison.groups import RunGroup

_DEVICE = ("device_drops", "device_marks")
_FLOWS = (
    "retransmissions",
    "spurious_retransmissions",
    "network_duplicates",
    "timeouts",
    "naks",
    "rnr_naks",
    "out_of_order",
    "cnps_sent",
)
"""Metrics that can explain a difference in time, by name."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A counter in two groups.

    Attributes:
        metric: name of what is counted, see statistics/metrics.py.
        baseline, other: median over the runs that count it, per run; None if none does.
        is_apart: the groups do not overlap: every run of one counts more than every run of the other.
    """

    metric: str
    baseline: float | None
    other: float | None
    is_apart: bool = False


def counted(run: Run) -> Mapping[str, int]:
    """Name of a metric → count of a run; metrics that it does not have are absent."""
    flows = sum_flow_counters(run.table(RunTable.FLOWS))
    found = {name: flows[METRICS[name].field] for name in _FLOWS if METRICS[name].field in flows}
    readings = run.table(RunTable.COUNTERS)
    if readings.num_rows:
        device = sum_dut_counters(readings, run.manifest)
        found |= zip(_DEVICE, (dropped_frames(device), device.get(MARKS, 0)), strict=True)
    return found


def causes(baseline: RunGroup, other: RunGroup) -> list[Cause]:
    """The counters that are not 0 in some run, the device's first."""
    found = []
    for name in (*_DEVICE, *_FLOWS):
        first, second = _values(name, baseline), _values(name, other)
        if any(first) or any(second):
            is_apart = bool(first and second) and (max(first) < min(second) or max(second) < min(first))
            found.append(Cause(name, _median(first), _median(second), is_apart))
    return found


def _values(name: str, group: RunGroup) -> list[int]:
    return [run.counted[name] for run in group.runs if name in run.counted]


def _median(values: Sequence[int]) -> float | None:
    return float(median(values)) if values else None


def most_telling(found: Sequence[Cause]) -> Cause | None:
    """The first counter that tells the groups apart; None if none does."""
    return next((one for one in found if one.is_apart), None)
