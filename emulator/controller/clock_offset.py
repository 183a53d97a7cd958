"""Offset of an agent's clock against the controller's, from exchanges over the control stream, without IO.

An exchange bounds the offset for certain, whatever the delays were: the agent had the query after it was sent, and the
controller had the reply after that was sent (NTP's four timestamps, RFC 5905 section 8). Exchanges come in bursts while
nothing else moves; those of a burst together bound it better than the quickest alone. Between bursts the offset is
taken to drift evenly; exchanges in the midst of traffic, which are slow, show where it did not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from emulator.control import conversation as control
from emulator.host.clock import clock_id
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


FIRST_BURST, NEXT_BURST = 48, 16
"""Exchanges with an agent of another clock, when it joins and around each iteration."""
LOOKS = 64
"""Clocks that are looked at together in the midst of traffic."""


class AgentClocks:
    """Watches the clock of every agent that does not share the controller's, `own`; None: that of this host."""

    def __init__(self, own: str | None = None) -> None:
        self._own = clock_id() if own is None else own
        self._watches: dict[str, ClockWatch] = {}
        self._settling: list[Callable[[], None]] = []
        self._looked = 0  # clocks, in this round

    def add(self, agent: str, agent_clock: str, send: Callable[[control.ControllerValue], None]) -> None:
        """An agent has joined; `agent_clock` identifies its clock, "" if it does not know."""
        if self._own and agent_clock == self._own:
            return
        self._watches[agent] = ClockWatch(lambda: send(control.ClockQuery(0)))
        self._watches[agent].burst(FIRST_BURST)

    def ahead_ns(self, agent: str) -> int:
        """How far its clock is ahead of the controller's, as known now; 0 if they share one."""
        return self._watches[agent].offset_ns if agent in self._watches else 0

    def error_ns(self, agent: str, *, since_ns: int) -> int:
        """How far off what was known of its clock at a time may be by now; 0 if it is the controller's."""
        if agent not in self._watches:
            return 0
        return self._watches[agent].error_ns + int(FASTEST_DRIFT * (time.monotonic_ns() - since_ns))

    def note(self, agent: str, reply: control.ClockReply) -> None:
        """A reply to a query has arrived."""
        if agent in self._watches:
            exchange = ClockExchange(reply.query_sent_ns, reply.received_ns, reply.sent_ns, time.monotonic_ns())
            self._watches[agent].heard(exchange)

    def settle_then(self, then: Callable[[], None]) -> None:
        """Look at all clocks, then call `then`; while they are looked at for another, both are called together."""
        self._settling.append(then)
        if len(self._settling) > 1:
            return
        waiting = set(self._watches)

        def known(name: str) -> None:
            waiting.discard(name)
            if not waiting:
                self._settled()

        for name, watch in self._watches.items():
            watch.burst(NEXT_BURST, partial(known, name))
        if not self._watches:
            self._settled()

    def _settled(self) -> None:
        settling, self._settling = self._settling, []
        for then in settling:
            then()

    def look(self) -> None:
        """Query some in turn in the midst of traffic: slow replies still show if a clock did not drift evenly."""
        watches = list(self._watches.values())
        for watch in watches[self._looked : self._looked + LOOKS]:
            watch.look()
        self._looked = self._looked + LOOKS if self._looked + LOOKS < len(watches) else 0

    def estimates(self) -> dict[str, ClockEstimate]:
        """Agent → its offsets over the run, as far as they are known."""
        found = {name: watch.estimate() for name, watch in self._watches.items()}
        return {name: estimate for name, estimate in found.items() if estimate is not None}
