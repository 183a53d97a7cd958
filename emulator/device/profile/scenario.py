"""Starts and ends the rules of a profile at their times during a run, on a thread, and records the actual times."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from emulator.device.profile.applying import AppliedProfile
from emulator.device.profile.changes import Change
from emulator.errors import HostError
from emulator.units import NS_PER_S

_ENDING_S = 30.0


@dataclass(slots=True)
class Timing:
    """When a change was in force, ns on the clock of the run; None if it has not started or ended."""

    change: Change
    started_ns: int | None = None
    ended_ns: int | None = None


class _Event(NamedTuple):
    at_s: float
    number: int
    is_start: bool
    timing: Timing


class Scenario:
    """Applies and undoes the changes of a profile at their times.

    Args:
        applied: makes and undoes the changes.
        changes: of the profile.
        clock_ns: the monotonic clock of the run, ns.
    """

    def __init__(
        self, applied: AppliedProfile, changes: Sequence[Change], *, clock_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._applied, self._clock_ns = applied, clock_ns
        self.timings = [Timing(change) for change in changes]
        self._has_ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.begun_ns: int | None = None
        self.failure: HostError | None = None
        """Why a change could not be made or undone at its time."""

    def prepare(self) -> None:
        """Make the changes that are in force from before the run.

        Raises:
            HostError: a change cannot be made.
        """
        for timing in self.timings:
            if not timing.change.rule.is_timed:
                self._start(timing)

    def begin(self) -> None:
        """Start the schedule: the run begins now."""
        self.begun_ns = self._clock_ns()
        events = self._events()
        if events:
            self._thread = threading.Thread(target=self._follow, args=(events,), name="scenario", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """End the schedule: no more changes are made; idempotent."""
        self._has_ended.set()
        if self._thread is not None:
            self._thread.join(_ENDING_S)

    def _events(self) -> list[_Event]:
        events = []
        for number, timing in enumerate(self.timings):
            rule = timing.change.rule
            if rule.start_s is not None:
                events.append(_Event(rule.start_s, number, True, timing))
            if rule.end_s is not None:
                events.append(_Event(rule.end_s, number, False, timing))
        return sorted(events, key=lambda event: (event.at_s, event.is_start, event.number))

    def _follow(self, events: Sequence[_Event]) -> None:
        try:
            for event in events:
                if self._has_ended.wait(max(0.0, self._left_s(event))):
                    return
                (self._start if event.is_start else self._stop)(event.timing)
        except HostError as error:
            self.failure = error

    def _left_s(self, event: _Event) -> float:
        assert self.begun_ns is not None  # set by begin()
        return event.at_s - (self._clock_ns() - self.begun_ns) / NS_PER_S

    def _start(self, timing: Timing) -> None:
        self._applied.start(timing.change)
        timing.started_ns = self._clock_ns()

    def _stop(self, timing: Timing) -> None:
        self._applied.stop(timing.change)
        timing.ended_ns = self._clock_ns()
