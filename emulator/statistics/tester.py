"""Was it the network, or the tester? What a calibrated tester alone would have needed, against what was measured.

A model measured without a device under test: what one step of a collective takes when next to nothing is sent, and how
many bytes a second all agents of the machine move together, in steps of several sizes. While a collective is under way
others share the machine, so their bytes count too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from emulator.errors import PlanError
from emulator.planner.algorithms import schedule
from emulator.planner.schedule import Collective
from emulator.statistics.collectives import Merged, to_ints
from emulator.statistics.stats import median
from emulator.trace.model import CommKind, IntArray
from emulator.units import NS_PER_S

LIMITED_PERCENT = 90.0
"""A collective that the tester alone would have needed this share of the time for says more of the tester."""
_COUNTED_MEMBERS = 1024
_TELLING = 0.5
"""Bytes that take less than this share of the steps' time tell nothing of the rate: the noise of steps would."""
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What a tester can do alone.

    Attributes:
        rates: (bytes that a rank sends in a step, payload that all ranks of the machine send together, bytes/s),
            ascending; between them the rate is interpolated over the logarithm, beyond them it is the nearest.
        step_ns: a step of a collective of next to no bytes, all ranks at once.
    """

    rates: Sequence[tuple[int, float]]
    step_ns: float

    @classmethod
    def of_manifest(cls, calibration: Mapping[str, object]) -> Ceiling | None:
        """As a run's manifest has it; None if the tester was not calibrated."""
        rates, step = calibration.get("rates"), calibration.get("step_ns")
        if not isinstance(rates, Sequence) or not isinstance(step, int | float):
            return None
        return cls([(int(size), float(rate)) for size, rate in rates], float(step))

    def rate_bytes_per_s(self, step_bytes: float) -> float:
        """Of steps of that size."""
        sizes, rates = zip(*self.rates, strict=True)
        return float(np.interp(np.log(max(step_bytes, 1)), np.log(sizes), rates))


def sent_meanwhile(samples: pa.Table, merged: Merged) -> FloatArray:
    """Payload that the whole machine sent while each measurement was under way, bytes.

    Args:
        samples: rows of iterations that count, with `bytes_sent`.
        merged: of them.
    """
    windows = _windows(samples)
    if not len(windows.key):
        return np.zeros(len(merged))
    at = np.searchsorted(windows.key, _key(merged.iteration, merged.instance))
    sent = windows.sent_until(windows.last[at]) - windows.sent_until(windows.post[at])
    # A measurement of no length saw nothing pass.
    return np.asarray(np.maximum(sent, 0.0), np.float64)


@dataclass(frozen=True, slots=True)
class TesterAlone:
    """What the tester alone would have needed for the measurements of a run.

    Attributes:
        sent_bytes: of each, see `sent_meanwhile`.
    """

    ceiling: Ceiling
    merged: Merged
    sent_bytes: FloatArray

    def percent(self, rows: IntArray, *, kind: CommKind, algorithm: str) -> float | None:
        """100 x needed / measured, at the median of a class's rows; None if nobody can say."""
        merged, ceiling = self.merged, self.ceiling
        steps, step_bytes = _steps(kind, int(merged.members[rows[0]]), int(merged.size_bytes[rows[0]]), algorithm)
        cct_ns = merged.cct_ns[rows]
        valid = cct_ns > 0
        if not steps or not np.any(valid):
            return None
        rate = ceiling.rate_bytes_per_s(step_bytes)
        alone_ns = steps * ceiling.step_ns + self.sent_bytes[rows] / rate * NS_PER_S
        return median(100 * alone_ns[valid] / cct_ns[valid])


def find_ceiling(merged: Merged, sent_bytes: FloatArray, *, steps: int, step_bytes: Mapping[int, int]) -> Ceiling:
    """The ceiling from a calibration.

    Args:
        merged: its collectives, all one in `steps`; the smallest have next to no bytes.
        step_bytes: size of a collective → what a rank sends in a step of it. Sizes that take hardly longer than the
            smallest have no rate.
    """
    smallest = min(step_bytes)
    step_ns = float(median(merged.cct_ns[merged.size_bytes == smallest]) or 0) / steps
    rates: list[tuple[int, float]] = []
    for size in sorted(step_bytes.keys() - {smallest}):
        rows = merged.size_bytes == size
        moving_ns = float(median(merged.cct_ns[rows]) or 0) - steps * step_ns
        if moving_ns > _TELLING * steps * step_ns or size == max(step_bytes):
            rates.append((step_bytes[size], float(median(sent_bytes[rows]) or 0) / max(moving_ns, 1) * NS_PER_S))
    return Ceiling(rates, step_ns)


@cache
def _steps(kind: CommKind, members: int, size_bytes: int, algorithm: str) -> tuple[int, float]:
    """Steps one after the other in a member's longest lane, and what it sends in each; 0 if nobody can say."""
    if kind in (CommKind.SEND, CommKind.RECV):
        return 1, size_bytes
    if members > _COUNTED_MEMBERS:
        return 0, 0
    try:
        lanes = [list(lane) for lane in schedule(algorithm, Collective(kind, members, members - 1, size_bytes))]
    except PlanError:  # an own algorithm that is not installed here, uneven splits
        return 0, 0
    steps = max(map(len, lanes), default=0)
    sent = sum(transfer.size for lane in lanes for step in lane for transfer in step.sends)
    return steps, sent / max(steps, 1)


@dataclass(frozen=True, slots=True)
class _Windows:
    """When each measurement was under way, from its last post to its last done: a row per (iteration, instance)."""

    key: IntArray
    post: IntArray
    last: IntArray
    sent: IntArray

    def sent_until(self, times: IntArray) -> FloatArray:
        """Bytes that all have sent by then, each evenly over its window."""
        origin = int(self.post.min())
        rates = self.sent / (self.last - self.post)
        return _ramp(self.post - origin, rates, times - origin) - _ramp(self.last - origin, rates, times - origin)


def _ramp(starts: IntArray, rates: FloatArray, times: IntArray) -> FloatArray:
    """Sum over all of rate x (time - start), of those that have started."""
    order = np.argsort(starts)
    slope = np.concatenate(([0.0], np.cumsum(rates[order])))
    offset = np.concatenate(([0.0], np.cumsum(rates[order] * starts[order])))
    at = np.searchsorted(starts[order], times)
    return np.asarray(slope[at] * times - offset[at], np.float64)


def _windows(samples: pa.Table) -> _Windows:
    key = _key(to_ints(samples["iteration"]), to_ints(samples["instance"]))
    order = np.argsort(key, kind="stable")
    keys, starts = np.unique(key[order], return_index=True)
    post, done, sent = (to_ints(samples[name])[order] for name in ("post_ns", "done_ns", "bytes_sent"))
    if not len(starts):
        return _Windows(keys, post, done, sent)
    posted = np.maximum.reduceat(post, starts)
    last = np.maximum(np.maximum.reduceat(done, starts), posted + 1)
    return _Windows(keys, posted, last, np.add.reduceat(sent, starts))


def _key(iteration: IntArray, instance: IntArray) -> IntArray:
    return (iteration << 40) + instance
