"""When the rules of a profile come and go: the schedule of a run, kept by a thread, with the times it really took."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from emulator.dut.applying import AppliedProfile
from emulator.dut.changes import Change
from emulator.errors import HostError
from emulator.units import NS_PER_S

_ENDING_S = 30.0


@dataclass(slots=True)
class Course:
    """When a change was in force: ns on the run's clock; None for what has not happened."""

    change: Change
    started_ns: int | None = None
    ended_ns: int | None = None


class _Event(NamedTuple):
    at_s: float
    number: int
    is_start: bool
    course: Course


class Scenario:
    """Makes and takes back the changes of a profile at their times.

    Args:
        applied: the profile in force.
        changes: those to be made.
        clock_ns: the run's clock, monotonic, ns.
    """

    def __init__(
        self, applied: AppliedProfile, changes: Sequence[Change], *, clock_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._applied, self._clock_ns = applied, clock_ns
        self.courses = [Course(change) for change in changes]
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.begun_ns: int | None = None
        self.failure: HostError | None = None
        """What kept a change from being made or taken back at its time."""

    def prepare(self) -> None:
        """Make the changes that hold before the run begins.

        Raises:
            HostError: one cannot be made.
        """
        for course in self.courses:
            if not course.change.rule.is_timed:
                self._start(course)

    def begin(self) -> None:
        """The run begins now: times count from here."""
        self.begun_ns = self._clock_ns()
        events = self._events()
        if events:
            self._thread = threading.Thread(target=self._keep, args=(events,), name="scenario", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """The run is over: nothing more is changed; idempotent."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(_ENDING_S)

    def _events(self) -> list[_Event]:
        events = []
        for number, course in enumerate(self.courses):
            rule = course.change.rule
            if rule.start_s is not None:
                events.append(_Event(rule.start_s, number, True, course))
            if rule.end_s is not None:
                events.append(_Event(rule.end_s, number, False, course))
        return sorted(events, key=lambda event: (event.at_s, event.is_start, event.number))

    def _keep(self, events: Sequence[_Event]) -> None:
        try:
            for event in events:
                if self._over.wait(max(0.0, self._left_s(event))):
                    return
                (self._start if event.is_start else self._stop)(event.course)
        except HostError as error:
            self.failure = error

    def _left_s(self, event: _Event) -> float:
        assert self.begun_ns is not None  # events come after the beginning
        return event.at_s - (self._clock_ns() - self.begun_ns) / NS_PER_S

    def _start(self, course: Course) -> None:
        self._applied.start(course.change)
        course.started_ns = self._clock_ns()

    def _stop(self, course: Course) -> None:
        self._applied.stop(course.change)
        course.ended_ns = self._clock_ns()
