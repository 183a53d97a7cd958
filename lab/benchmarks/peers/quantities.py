"""What is compared: its unit, which way is better, how people read it; and the figures aimed at."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from emulator.units import format_duration

LEAST_PAIRS = 5
"""Fewer pairs decide nothing."""


class Quantity(enum.Enum):
    """A quantity and its unit; the value is its name in JSON."""

    GOODPUT = "goodput_bps"
    BUS_BANDWIDTH = "busbw_bytes_per_s"
    TIME = "cct_ns"
    MESSAGE_RATE = "messages_per_s"

    @property
    def is_better_low(self) -> bool:
        """Whether less is better."""
        return self is Quantity.TIME

    def show(self, value: float) -> str:
        """For people, with its unit."""
        if self is Quantity.TIME:
            return format_duration(value)
        if self is Quantity.MESSAGE_RATE:
            return f"{value:,.0f}/s"
        unit = "Gb/s" if self is Quantity.GOODPUT else "GB/s"
        return f"{value / 1e9:.3g} {unit}"


class Verdict(enum.Enum):
    """Whether a figure aimed at was reached, at the median."""

    REACHED = "reached"
    MISSED = "missed"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on the median: of the ratio to a peer, or of the value itself where there is no peer."""

    bound: float
    is_upper: bool = False

    def verdict(self, median: float | None, *, pairs: int) -> Verdict:
        """Compare; too few pairs decide nothing."""
        if median is None or pairs < LEAST_PAIRS:
            return Verdict.UNDECIDED
        holds = median <= self.bound if self.is_upper else median >= self.bound
        return Verdict.REACHED if holds else Verdict.MISSED


_MS = 1e6
TARGETS: dict[tuple[str, str, str | None], Target] = {
    ("flow-4096", "roce", "iperf3 UDP"): Target(2.2),
    ("flow-4096", "roce", "bare blast"): Target(0.75),
    ("flow-1024", "roce", "iperf3 UDP"): Target(5),
    ("flow-1024", "roce", "bare blast"): Target(0.6),
    ("all-reduce-large", "roce", "Gloo"): Target(1.5),
    ("all-reduce-large", "roce", "Open MPI"): Target(1.5),
    ("all-reduce-small", "roce, credits off", None): Target(1 * _MS, is_upper=True),
    ("all-reduce-many", "roce, credits off", None): Target(100_000),
    ("all-reduce-many", "roce", None): Target(50_000),
}
"""By setting, ours, and peer (None: the value itself). All of them are meant for two cores."""
