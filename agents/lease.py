"""How long an agent plays on without hearing from its controller, which may be stopped, stuck or cut off.

A controller that ends closes the stream, and that is heard at once. This is for one that says nothing any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from emulator.errors import RunAborted
from emulator.host.core_wait import CoreTime
from emulator.units import NS_PER_S

CHECK_S = 0.5
LONGEST_S = 60.0
"""No controller gives more, and one that gives nothing gives this when traffic begins."""
LONGEST_ABSENCE_S = 3.0
"""If more time passes between two checks, this agent had no core: what the controller sent is still unread."""
_BUSY_S = 1.0
"""A silent controller of this host works if it ran, or waited for a core, for longer than this."""


class Lease:
    """Whatever the controller says renews it; there is none until the controller gives one, or traffic begins.

    Args:
        now: the clock, s.
        core_time: time of the controller's process so far; None if it is not on this host.
    """

    def __init__(
        self, *, now: Callable[[], float] = time.monotonic, core_time: Callable[[], CoreTime | None] = lambda: None
    ) -> None:
        self._now, self._core_time = now, core_time
        self._seconds: float | None = None
        self._heard_at = self._checked_at = now()
        self._core_time_then: CoreTime | None = None  # when the controller fell silent

    def give(self, seconds: float) -> None:
        """The agent may play for so long, at most LONGEST_S, without hearing from the controller."""
        self._seconds = min(seconds, LONGEST_S)

    def begin(self) -> None:
        """Traffic begins, whether or not the controller has given a lease."""
        self._seconds = LONGEST_S if self._seconds is None else self._seconds

    def heard(self) -> None:
        """The controller has said something."""
        self._heard_at, self._core_time_then = self._now(), None

    def overdue(self) -> RunAborted | None:
        """Why the agent must stop; to be called every CHECK_S."""
        absent_s = self._now() - self._checked_at
        self._checked_at += absent_s
        if absent_s > LONGEST_ABSENCE_S:
            self._heard_at += absent_s
        silent_s = self._now() - self._heard_at
        if silent_s > _BUSY_S and self._core_time_then is None:
            self._core_time_then = self._core_time()
        if self._seconds is None or silent_s <= self._seconds or self._is_controller_busy():
            return None
        return RunAborted(f"the controller has sent nothing for {self._seconds:g} s")

    def _is_controller_busy(self) -> bool:
        """Whether a silent controller works; it may then be silent for as long again."""
        before, after = self._core_time_then, self._core_time()
        if before is None or after is None or sum(after) - sum(before) <= _BUSY_S * NS_PER_S:
            return False
        self._heard_at, self._core_time_then = self._now(), after
        return True
