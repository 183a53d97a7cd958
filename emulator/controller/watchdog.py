"""All time limits of a run: joining, silent agents, and a run in which nothing moves (its barrier is never reached).

The limits are checked four times a second. Nothing here ends the run; the session does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from emulator.control.conversation import Progress
from emulator.errors import AgentLost, EmulatorError, RunTimeout
from emulator.host.core_wait import CoreTime
from emulator.units import NS_PER_S

JOIN_TIMEOUT_S = 60.0
SILENT_AGENT_S = 10.0
"""Agents report at least once a second; one that reports nothing for this long is lost, unless it is seen to work."""
BUSY_S = 1.0
"""A silent process of this host works if it ran, or waited for a core, for longer than this."""
PERIOD_S = 0.25
LONGEST_ABSENCE_S = 3.0
"""If more time passes between two checks, the controller had no core: what agents sent is still unread."""


@dataclass(slots=True)
class Watchdog:
    """Knows when every agent last reported.

    Attributes:
        join_timeout_s: the run ends if an agent has not joined by then.
        now: the clock, s.
        core_time_of: the time of an agent's process so far; None if it is not on this host.
    """

    join_timeout_s: float = JOIN_TIMEOUT_S
    now: Callable[[], float] = time.monotonic
    core_time_of: Callable[[str], CoreTime | None] = lambda agent: None
    _heard_at: dict[str, float] = field(default_factory=dict)
    _core_time: dict[str, CoreTime | None] = field(default_factory=dict)  # when an agent fell silent
    _began: float = field(init=False)
    _checked_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self._checked_at = self.now()

    def heard(self, agent: str) -> None:
        """An agent has sent something."""
        self._heard_at[agent] = self.now()
        self._core_time.pop(agent, None)

    def forget(self, agent: str) -> None:
        """Nothing more is expected of an agent."""
        self._heard_at.pop(agent, None)

    def excused_s(self) -> float:
        """Time since the last call in which the controller itself did not run: it is nobody's silence."""
        absent_s = self.now() - self._checked_at
        self._checked_at += absent_s
        if absent_s <= LONGEST_ABSENCE_S:
            return 0.0
        self._began += absent_s
        for agent in self._heard_at:
            self._heard_at[agent] += absent_s
        return absent_s

    def overdue(self, *, missing: Sequence[str], is_gathering: bool, is_under_way: bool) -> EmulatorError | None:
        """The limit that is exceeded, as the error that ends the run.

        Args:
            missing: agents that have not joined.
            is_gathering: agents are still joining.
            is_under_way: agents report regularly from now on.
        """
        if is_gathering:
            is_late = self.now() - self._began > self.join_timeout_s
            what = f"agents to join: {', '.join(missing)}"
            return RunTimeout(what, seconds=self.join_timeout_s) if is_late else None
        return self._silent_agent() if is_under_way else None

    def _silent_agent(self) -> AgentLost | None:
        for agent, heard_at in self._heard_at.items():
            silent_s = self.now() - heard_at
            if silent_s > BUSY_S and agent not in self._core_time:
                self._core_time[agent] = self.core_time_of(agent)
            if silent_s > SILENT_AGENT_S and not self._works(agent):
                return AgentLost(agent, ranks=(), reason=f"it has sent nothing for {SILENT_AGENT_S:g} s")
        return None

    def _works(self, agent: str) -> bool:
        """Whether a silent agent was busy; it may then be silent for as long again."""
        before, after = self._core_time.get(agent), self.core_time_of(agent)
        if before is None or after is None or sum(after) - sum(before) <= BUSY_S * NS_PER_S:
            return False
        self._heard_at[agent], self._core_time[agent] = self.now(), after
        return True


@dataclass(slots=True)
class Standstill:
    """Knows when anything last moved in a job.

    Attributes:
        standstill_s: the run ends if nothing moves anywhere for this long.
        now: the clock, s.
        progress: of every agent, by its name or by what else tells reports apart.
        bytes_sent: of all of them.
    """

    standstill_s: float
    now: Callable[[], float] = time.monotonic
    progress: dict[object, Progress] = field(default_factory=dict)
    bytes_sent: int = 0
    _moved_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._moved_at = self.now()

    def note(self, agent: object, progress: Progress) -> None:
        """An agent has reported its progress."""
        earlier = self.progress.get(agent)
        if progress.has_moved(earlier):
            self._moved_at = self.now()
        self.bytes_sent += progress.bytes_sent - (earlier.bytes_sent if earlier is not None else 0)
        self.progress[agent] = progress

    def excuse(self, seconds: float | None = None) -> None:
        """Nothing could move for so long; None: until now."""
        self._moved_at = self.now() if seconds is None else self._moved_at + seconds

    def overdue(self, missing: Sequence[str]) -> RunTimeout | None:
        """What everybody waits for, and the two ranks that have been silent towards each other for longest.

        Args:
            missing: agents that have not reached the point that all wait for.
        """
        if self.now() - self._moved_at <= self.standstill_s:
            return None
        waits = [progress.waiting_on for progress in self.progress.values() if progress.waiting_on]
        waiting_on = "; ".join(waits) or f"agents {', '.join(missing)}"
        silent = max(self.progress.values(), key=lambda progress: progress.silence_ns, default=None)
        if silent is None or len(silent.silence) != 2:
            return RunTimeout(waiting_on, seconds=self.standstill_s)
        rank, peer = silent.silence
        silent_s = silent.silence_ns / NS_PER_S
        return RunTimeout(waiting_on, seconds=self.standstill_s, between=(rank, peer), silent_s=silent_s)


async def check_periodically(
    check: Callable[[], None], *, failed: Callable[[BaseException], None], period_s: float = PERIOD_S
) -> None:
    """Call `check` again and again until cancelled. If it raises, `failed` is called: limits never vanish silently."""
    try:
        while True:
            await asyncio.sleep(period_s)
            check()
    except Exception as error:  # the root of this task
        failed(error)
