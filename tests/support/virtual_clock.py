"""A clock that moves only when it is told to: deterministic time for tests and simulations."""

import heapq
from collections.abc import Callable

from emulator.errors import LocalProtocolError
from emulator.host.clock import Clock


class VirtualClock(Clock):
    """Time stands still until `run` executes the next alarm; the same alarms always run in the same order."""

    def __init__(self, start: int = 0) -> None:
        self._now = start
        self._alarms: list[tuple[int, int, Callable[[], None]]] = []
        self._set = 0

    def now(self) -> int:
        """Virtual nanoseconds."""
        return self._now

    def call_at(self, when: int, callback: Callable[[], None]) -> None:
        """Call back at `when`, or at the present time where that is past; ties in the order they were set."""
        self._set += 1
        heapq.heappush(self._alarms, (max(when, self._now), self._set, callback))

    def run(self, until: int | None = None) -> None:
        """Execute all alarms up to and including `until`, where the clock then stands; without it, all there are."""
        while self._alarms and (until is None or self._alarms[0][0] <= until):
            self._step()
        if until is not None:
            self._now = max(self._now, until)

    def run_until(self, reached: Callable[[], bool]) -> None:
        """Execute alarms until `reached()` is true.

        Raises:
            LocalProtocolError: no alarm is left and it is still false: everybody waits for somebody else.
        """
        while not reached():
            if not self._alarms:
                raise LocalProtocolError(f"nothing is left to happen after {self._now} ns of virtual time")
            self._step()

    def _step(self) -> None:
        self._now, _, callback = heapq.heappop(self._alarms)
        callback()
