"""What happened to packets in the runs of two groups: counters that can explain a difference in time.

Counters belong to a whole run, not to a class, and no test is made on them: they are a hint where to look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from emulator.run_folder.reader import Run
from emulator.run_folder.schema import Part
from emulator.statistics.dut_counters import DROPS, MARKS, sum_dut_counters
from emulator.statistics.flow_counters import sum_flow_counters

if TYPE_CHECKING:
    from emulator.comparison.groups import RunGroup

DEVICE_DROPS, DEVICE_MARKS = "dropped by the device", "marked by the device (ECN)"
_FLOWS = {
    "retransmits": "retransmissions",
    "duplicates": "of these spurious: packets that came twice",
    "timeouts": "timeouts",
    "naks": "NAKs",
    "rnr_naks": "RNR NAKs",
    "out_of_order": "packets that came early",
    "cnps_sent": "CNPs",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """A counter in two groups.

    Attributes:
        name: what is counted.
        baseline, other: median over the runs that count it, per run; None if none does.
        is_apart: the groups do not overlap: every run of one counts more than every run of the other.
    """

    name: str
    baseline: float | None
    other: float | None
    is_apart: bool = False


def counted(run: Run) -> Mapping[str, int]:
    """Name → count of a run; counters that it does not have are absent."""
    flows = sum_flow_counters(run.table(Part.FLOWS))
    found = {name: flows[key] for key, name in _FLOWS.items() if key in flows}
    readings = run.table(Part.COUNTERS)
    if readings.num_rows:
        device = sum_dut_counters(readings, run.manifest)
        found[DEVICE_DROPS] = sum(device.get(name, 0) for name in DROPS)
        found[DEVICE_MARKS] = device.get(MARKS, 0)
    return found


def causes(baseline: RunGroup, other: RunGroup) -> list[Cause]:
    """The counters that are not 0 in some run, the device's first."""
    found = []
    for name in (DEVICE_DROPS, DEVICE_MARKS, *_FLOWS.values()):
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
