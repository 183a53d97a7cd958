"""Who is there: the agents of a session, from their admission to their leave. Knows of no job but its number."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from emulator.control import conversation as control
from emulator.controller.clock_offset import AgentClocks
from emulator.controller.roster.control_service import AgentChannel
from emulator.controller.watchdog import Watchdog
from emulator.errors import EmulatorError
from emulator.host.core_wait import CoreTime
from emulator.host.resources import exhausted

DEATH_NEWS_S = 0.1
"""An agent that dies makes others give up: its death is waited for this long, because it is the better reason."""
UNREAD_S = 1.0
"""How long the stream of an agent may still be open after its process ended."""
FAREWELL_S = 0.5
"""How long a session that ends early waits for the counters of its agents, which stop sending at once."""
LEASE_S = 10.0
"""Agents stop by themselves when they have heard nothing for this long, as one that says nothing is lost."""
RENEW_S = 1.0


class RosterListener(Protocol):
    """Hears of the agents."""

    def joined(self, hello: control.Hello) -> None:
        """An agent was let in."""
        ...

    def said(self, agent: str, message: control.JobMessage[Any]) -> None:
        """An agent said something that is not about itself."""
        ...

    def gave_up(self, agent: str, abort: control.Abort, job: int | None) -> None:
        """An agent cannot go on; told with a delay, so that the death of another comes first."""
        ...

    def vanished(self, agent: str, reason: str) -> None:
        """An agent is gone that has not left."""
        ...

    def all_left(self) -> None:
        """Every agent has reported everything."""
        ...

    def failed(self, error: EmulatorError) -> None:
        """What an agent said cannot be dealt with."""
        ...


class Roster:
    """The agents of a session. Implements AgentListener.

    Args:
        agents: exactly these are let in.
        listener: hears of them.
        local: those whose processes are started on this host.
        join_timeout_s: the session ends if one has not joined by then.
    """

    def __init__(
        self,
        agents: Sequence[str],
        listener: RosterListener,
        *,
        local: Sequence[str],
        join_timeout_s: float,
    ) -> None:
        self._listener, self._local = listener, local
        self._agents = set(agents)
        self._channels: dict[str, AgentChannel] = {}
        self._gave_up: set[str] = set()
        self._left: set[str] = set()
        self._gone: set[str] = set()  # nothing more is expected of them
        self._exits: dict[str, str] = {}  # why processes ended
        self._silent = asyncio.Event()
        self._is_over = False
        self._renewed_at = -math.inf
        self.clocks = AgentClocks()
        self.watchdog = Watchdog(join_timeout_s=join_timeout_s, core_time_of=self._core_time_of)

    @property
    def missing(self) -> list[str]:
        """Agents that have not joined."""
        return sorted(self._agents - self._channels.keys())

    def send(self, agent: str, value: control.ControllerValue, job: int | None = None) -> None:
        """Send a value to an agent; `job`: number of the job that it is about."""
        self._channels[agent].send(value, job)

    def send_all(self, value: control.ControllerValue) -> None:
        """Send a value that is about no job to every agent that is here."""
        for channel in self._channels.values():
            channel.send(value)

    def renew_leases(self) -> None:
        """Let agents play on; may be called more often than needed."""
        if (now := time.monotonic()) - self._renewed_at >= RENEW_S:
            self._renewed_at = now
            self.send_all(control.Renew(round(LEASE_S * 1000)))

    # --- AgentListener ------------------------------------------------------------------------------------------

    def admit(self, channel: AgentChannel) -> str | None:
        """See AgentListener."""
        name = channel.hello.agent
        if self._is_over:
            return "the run is over"
        if name not in self._agents:
            return f"agent {name!r} is not part of this run"
        if name in self._channels:
            return f"an agent {name!r} has already joined"
        self._channels[name] = channel
        self.watchdog.heard(name)
        self.clocks.add(name, channel.hello.clock_id, channel.send)
        self._listener.joined(channel.hello)
        return None

    def heard(self, channel: AgentChannel, message: control.JobMessage[Any]) -> None:
        """See AgentListener."""
        name = channel.hello.agent
        try:
            self.watchdog.heard(name)
            match message.value:
                case control.ClockReply():
                    self.clocks.note(name, message.value)
                case control.Left():
                    self._left.add(name)
                    self._leaves(name)
                    if self._left == self._agents:
                        self._listener.all_left()
                case control.Abort():
                    self._gave_up.add(name)
                    self._leaves(name)
                    self._later(partial(self._listener.gave_up, name, message.value, message.job))
                case _:
                    self._listener.said(name, message)
        except EmulatorError as error:  # a result cannot be written, an agent reports nonsense: the session is over
            self._listener.failed(error)
        except Exception as error:  # this process ran out of something: the agent is not to blame
            lack = exhausted(error)
            if lack is None:
                raise
            self._listener.failed(lack)

    def lost(self, channel: AgentChannel, reason: str) -> None:
        """See AgentListener. Why its process ended, if that becomes known meanwhile, says more."""
        name = channel.hello.agent
        self._leaves(name)
        if name not in self._left:
            self._later(lambda: self._listener.vanished(name, self._exits.get(name, reason)))

    def exited(self, agent: str, code: int, reason: str) -> None:
        """Its process ended. What it said before that may be unread: then the end of its stream is waited for."""
        if code:
            self._exits[agent] = reason
        if agent not in self._channels:
            self._listener.vanished(agent, reason)
        elif code and agent not in self._gone:
            asyncio.get_running_loop().call_later(UNREAD_S, self._unheard, agent)

    def _unheard(self, agent: str) -> None:
        """Nothing more came of an agent whose process ended."""
        if agent not in self._gone:
            self._leaves(agent)
            self._listener.vanished(agent, self._exits[agent])

    # --- the end ------------------------------------------------------------------------------------------------

    async def dismiss(self, error: BaseException | None) -> None:
        """Tell agents that are still here to stop, and why; take their counters."""
        self._is_over = True
        if error is not None:
            self.send_all(control.Abort(str(error)))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FAREWELL_S):
                    while self._channels.keys() - self._gone:
                        self._silent.clear()
                        await self._silent.wait()
        for channel in self._channels.values():
            channel.close()

    def _leaves(self, agent: str) -> None:
        """Nothing more is expected of an agent."""
        self._gone.add(agent)
        self.watchdog.forget(agent)
        if self._gone >= self._channels.keys():
            self._silent.set()

    def _later(self, tell: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(DEATH_NEWS_S, tell)

    def _core_time_of(self, agent: str) -> CoreTime | None:
        if agent not in self._local:
            return None
        return CoreTime.now(Path(f"/proc/{self._channels[agent].hello.pid}/schedstat"))
