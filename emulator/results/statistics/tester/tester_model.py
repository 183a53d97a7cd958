"""A model of the tester: how much of a measured time the tester itself needs.

Calibration measures it without a device under test: the time of one step of a collective with almost no bytes, and the
throughput of all ranks of the machine together for steps of several sizes. Collectives that run at the same time share
the machine, so their bytes count too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import stdtrit

from emulator.errors import PlanError
from emulator.planner.algorithms import depends_on_layout, schedule
from emulator.planner.group_layout import GroupLayout, Layouts
from emulator.planner.schedule import Collective
from emulator.results.statistics.method.descriptive import median
from emulator.results.statistics.samples.bytes_in_flight import FloatArray, bytes_in_flight
from emulator.results.statistics.samples.collectives import MergedSamples
from emulator.results.statistics.samples.table_columns import to_ints
from emulator.trace.meaning.model import CommKind, IntArray
from emulator.units import NS_PER_S

TESTER_LIMITED_PERCENT = 90.0
"""From this share of the measured time on, the tester sets the time rather than the device."""
_MAX_SCHEDULED_MEMBERS = 1024
"""Larger groups have no share: their schedule takes too long to compute."""
_MIN_TRANSFER_SHARE = 0.5
"""A rate needs bytes that take at least this fraction of the time of the steps; below it, their noise dominates."""


@dataclass(frozen=True, slots=True)
class TesterModel:
    """What the tester does without a device under test.

    Attributes:
        rates: (bytes that a rank sends in a step, payload of all ranks of the machine together, bytes/s), ascending.
            Between two sizes the rate is interpolated over the logarithm of the size; beyond the ends it is constant.
        step_ns: one step of a collective of almost no bytes, with all ranks active.
    """

    rates: Sequence[tuple[int, float]]
    step_ns: float

    @classmethod
    def from_manifest(cls, calibration: Mapping[str, object]) -> TesterModel | None:
        """The model in the manifest of a run; None if the tester was not calibrated."""
        rates, step = calibration.get("rates"), calibration.get("step_ns")
        if not isinstance(rates, Sequence) or not isinstance(step, int | float):
            return None
        return cls([(int(size), float(rate)) for size, rate in rates], float(step))

    def rate_bytes_per_s(self, step_bytes: float) -> float:
        """Throughput for steps of this size."""
        sizes, rates = zip(*self.rates, strict=True)
        return float(np.interp(np.log(max(step_bytes, 1)), np.log(sizes), rates))


def fit_tester_model(
    merged: MergedSamples, machine_bytes: FloatArray, *, steps: int, step_bytes: Mapping[int, int]
) -> TesterModel:
    """Derive the model from the run of a calibration.

    Args:
        merged: its collectives, each of `steps` steps; the smallest size has almost no bytes.
        machine_bytes: for each of them, see `bytes_in_flight`.
        step_bytes: size of a collective → bytes that a rank sends in a step. A size that takes hardly longer than the
            smallest one gives no rate.
    """
    smallest = min(step_bytes)
    step_ns = float(median(merged.cct_ns[merged.size_bytes == smallest]) or 0) / steps
    rates: list[tuple[int, float]] = []
    for size in sorted(step_bytes.keys() - {smallest}):
        rows = merged.size_bytes == size
        transfer_ns = float(median(merged.cct_ns[rows]) or 0) - steps * step_ns
        if transfer_ns > _MIN_TRANSFER_SHARE * steps * step_ns or size == max(step_bytes):
            rate = float(median(machine_bytes[rows]) or 0) / max(transfer_ns, 1) * NS_PER_S
            rates.append((step_bytes[size], rate))
    return TesterModel(rates, step_ns)


def slowest_likely(models: Sequence[TesterModel]) -> TesterModel:
    """The slow end of what several calibrations found: of each mean the end of its 95 % interval (Student's t).

    Args:
        models: one per calibration. A size counts if all of them have a rate for it.
    """
    shared = set.intersection(*({size for size, _ in one.rates} for one in models))
    rates = {size: [rate for one in models for at, rate in one.rates if at == size] for size in shared}
    slow = [(size, 1e9 / _upper_mean([1e9 / max(rate, 1.0) for rate in found])) for size, found in rates.items()]
    return TesterModel(sorted(slow), _upper_mean([one.step_ns for one in models]))


def _upper_mean(values: Sequence[float]) -> float:
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean
    error: float = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return mean + float(stdtrit(len(values) - 1, 0.975)) * error


@dataclass(frozen=True, slots=True)
class TesterShare:
    """The tester's share of the measurements of a run.

    Attributes:
        machine_bytes: for each of them, see `bytes_in_flight`.
        layouts: of their groups; None: not known.
    """

    model: TesterModel
    merged: MergedSamples
    machine_bytes: FloatArray
    layouts: InstanceLayouts | None = None

    @classmethod
    def of(
        cls,
        model: TesterModel,
        samples: pa.Table,
        merged: MergedSamples,
        *,
        layouts: InstanceLayouts | None = None,
        domain_share: float = 0.0,
        beside_bytes_per_s: float = 0.0,
    ) -> TesterShare:
        """The share of a tester in these measurements.

        Bytes through scale-up domains, which are `domain_share` of all, cost the tester nothing. All measurements
        between hosts are taken to have the same part of them. Flows alongside the job cost it as much as payload.
        """
        sent = bytes_in_flight(samples, merged)
        if domain_share:
            inside = merged.has_hosts & ~merged.between_hosts
            local = float(sent[inside].sum() / max(sent.sum(), 1.0))
            wire = min(1.0, (1 - domain_share) / max(1 - local, 1e-9))
            sent = np.where(inside, 0.0, sent * wire)
        sent = sent + np.maximum(merged.cct_ns, 0) * (beside_bytes_per_s / NS_PER_S)
        return cls(model, merged, sent, layouts)

    def percent(self, rows: IntArray, *, kind: CommKind, algorithm: str) -> float | None:
        """100 x time that the tester adds to the ideal time / measured time, at the median of the rows of one class.

        A step costs its time whatever the network does. The tester moves bytes while the ports do: it adds only what
        it needs longer than they.

        None if the algorithm is unknown here, the group is too large, or no time is above zero.
        """
        merged, model = self.merged, self.model
        layout = None
        if self.layouts is not None and kind.is_collective and depends_on_layout(kind, algorithm):
            layout = self.layouts.of(int(merged.instance[rows[0]]))
        members, size_bytes = int(merged.members[rows[0]]), int(merged.size_bytes[rows[0]])
        steps, step_bytes = _steps(kind, members, size_bytes, algorithm, layout)
        cct_ns = merged.cct_ns[rows]
        valid = cct_ns > 0
        if not steps or not np.any(valid):
            return None
        rate = model.rate_bytes_per_s(step_bytes)
        moving_ns = self.machine_bytes[rows] / rate * NS_PER_S
        needed_ns = steps * model.step_ns + np.maximum(moving_ns - np.maximum(merged.ideal_ns[rows], 0), 0)
        return median(100 * needed_ns[valid] / cct_ns[valid])


@cache
def _steps(
    kind: CommKind, members: int, size_bytes: int, algorithm: str, layout: GroupLayout | None
) -> tuple[int, float]:
    """Steps of the longest lane of a member, and bytes that it sends in each; 0 steps if unknown."""
    if not kind.is_collective:
        return 1, size_bytes
    if members > _MAX_SCHEDULED_MEMBERS:
        return 0, 0
    try:
        view = Collective(kind, members, members - 1, size_bytes, layout=layout)
        lanes = [list(lane) for lane in schedule(algorithm, view)]
    except PlanError:  # a user's algorithm that is not installed here, or uneven splits
        return 0, 0
    steps = max(map(len, lanes), default=0)
    sent = sum(transfer.size for lane in lanes for step in lane for transfer in step.sends)
    return steps, sent / max(steps, 1)


class InstanceLayouts:
    """The layouts of the groups of a run.

    Args:
        samples: with `instance` and `rank`.
        topology: of the manifest.
    """

    def __init__(self, samples: pa.Table, topology: Mapping[str, Any]) -> None:
        hosts = topology.get("host_index") or ()
        self._layouts = Layouts(hosts, topology.get("interface_index") or [0] * len(hosts))
        self._samples = samples

    def of(self, instance: int) -> GroupLayout | None:
        """That of the group of an instance, with its members by rank; None if it is not known."""
        ranks = to_ints(self._samples["rank"])[to_ints(self._samples["instance"]) == instance]
        return self._layouts.of(np.unique(ranks).tolist())
