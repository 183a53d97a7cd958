"""Offset of an agent's clock against the controller's, from exchanges over the control stream, without IO.

An exchange bounds the offset for certain, whatever the delays were: the agent had the query after it was sent, and the
controller had the reply after that was sent (NTP's four timestamps, RFC 5905 section 8). Exchanges come in bursts while
nothing else moves; those of a burst together bound it better than the quickest alone. Between bursts the offset is
taken to drift evenly; exchanges in the midst of traffic, which are slow, show where it did not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from emulator.trace.meaning.model import IntArray

FASTEST_DRIFT = 500e-6
"""Most by which a kernel lets a clock be slewed, adjtimex(2)."""


@dataclass(frozen=True, slots=True)
class ClockExchange:
    """A query and its reply, ns: `sent_ns` and `back_ns` on the controller's clock, the others on the agent's."""

    sent_ns: int
    received_ns: int
    replied_ns: int
    back_ns: int

    @property
    def low_ns(self) -> int:
        """The agent's clock is ahead of the controller's by no less."""
        return self.replied_ns - self.back_ns

    @property
    def high_ns(self) -> int:
        """The agent's clock is ahead of the controller's by no more."""
        return self.received_ns - self.sent_ns

    @property
    def middle_ns(self) -> int:
        """When it was, on the controller's clock."""
        return (self.sent_ns + self.back_ns) // 2


@dataclass(frozen=True, slots=True)
class Offset:
    """An agent's clock minus the controller's at a moment of the latter, and how far off that may be, ns."""

    at_ns: int
    offset_ns: int
    error_ns: int


@dataclass(frozen=True, slots=True)
class ClockEstimate:
    """Offsets over a run.

    Attributes:
        points: in order of time; between them the offset is interpolated.
        error_ns: most by which any of it is off.
    """

    points: tuple[Offset, ...]
    error_ns: int

    @property
    def offset_ns(self) -> int:
        """The offset at the last point."""
        return self.points[-1].offset_ns

    def to_controller(self, stamps_ns: IntArray) -> IntArray:
        """Stamps of the agent's clock on the controller's."""
        base = self.points[0]
        there = np.array([point.at_ns - base.at_ns + point.offset_ns - base.offset_ns for point in self.points])
        beyond = np.array([point.offset_ns - base.offset_ns for point in self.points])
        # Differences to the first point: a float holds those to the nanosecond, which it may not the stamps.
        since = stamps_ns - (base.at_ns + base.offset_ns)
        correction = np.rint(np.interp(since, there, beyond)).astype(np.int64)
        corrected: IntArray = stamps_ns - base.offset_ns - correction
        return corrected


class ClockWatch:
    """Collects the exchanges with one agent.

    Args:
        ask: sends a query, which `heard` gets the answer of.
    """

    def __init__(self, ask: Callable[[], None]) -> None:
        self._ask = ask
        self._burst: list[ClockExchange] = []
        self._left = 0
        self._then: Callable[[], None] | None = None
        self._points: list[Offset] = []
        self._strays: list[ClockExchange] = []

    @property
    def is_bursting(self) -> bool:
        """Whether a burst is under way."""
        return self._left > 0

    @property
    def offset_ns(self) -> int:
        """What is known now; only after the first burst."""
        return self._points[-1].offset_ns

    @property
    def error_ns(self) -> int:
        """How far off the offset may be."""
        return self._points[-1].error_ns

    def burst(self, exchanges: int, then: Callable[[], None] | None = None) -> None:
        """Make so many exchanges, one after the other, then call `then`; one that is under way is made longer."""
        is_idle = not self.is_bursting
        self._left, self._then = self._left + exchanges, then
        if is_idle:
            self._ask()

    def look(self) -> None:
        """Make an exchange in the midst of traffic, unless a burst is under way."""
        if not self.is_bursting:
            self._ask()

    def heard(self, exchange: ClockExchange) -> None:
        """A reply came."""
        if not self.is_bursting:
            self._strays.append(exchange)
            return
        self._burst.append(exchange)
        self._left -= 1
        if self._left:
            self._ask()
            return
        self._points.append(_intersect(self._burst))
        self._burst = []
        then, self._then = self._then, None
        if then is not None:
            then()

    def estimate(self) -> ClockEstimate | None:
        """Offsets of the whole run; None if there was no whole burst."""
        if not self._points:
            return None
        points = list(self._points)
        late = [one for one in self._strays if one.middle_ns > points[-1].at_ns]
        if late:  # the run broke off: what was said last bounds the end
            points.append(_intersect(late[-1:]))
        estimate = ClockEstimate(tuple(points), max(point.error_ns for point in points))
        bent = max((_violation(estimate, one) for one in self._strays), default=0)
        return ClockEstimate(estimate.points, estimate.error_ns + bent)


def _intersect(exchanges: list[ClockExchange]) -> Offset:
    """What all of them allow, each as wide as the clock may have drifted until the last."""
    at_ns = exchanges[-1].middle_ns
    slack = [int(FASTEST_DRIFT * (at_ns - one.middle_ns)) + 1 for one in exchanges]
    low = max(one.low_ns - wide for one, wide in zip(exchanges, slack, strict=True))
    high = min(one.high_ns + wide for one, wide in zip(exchanges, slack, strict=True))
    return Offset(at_ns, (low + high) // 2, (abs(high - low) + 1) // 2 + 1)


def _violation(estimate: ClockEstimate, one: ClockExchange) -> int:
    """By how much an exchange contradicts the estimate and its error: the clock did not drift evenly."""
    replied = np.array([one.replied_ns], np.int64)
    offset_ns = one.replied_ns - int(estimate.to_controller(replied)[0])
    outside = max(one.low_ns - offset_ns, offset_ns - one.high_ns, 0)
    return max(0, outside - estimate.error_ns)


def difference_error_ns(errors_ns: list[int]) -> int:
    """Most by which the difference of stamps of two agents is off, of the errors of all."""
    return sum(sorted(errors_ns)[-2:])
