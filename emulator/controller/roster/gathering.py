"""Agents that have joined before a run is planned: its topology is made from them."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable
from typing import Any

from emulator.control import conversation as control
from emulator.controller.roster.control_server import serve_control
from emulator.controller.roster.control_service import AgentChannel
from emulator.controller.roster.listen_address import ListenAddress
from emulator.controller.watchdog import PERIOD_S
from emulator.errors import RunError
from emulator.host.files import scratch_folder
from emulator.host.resources import reserve


async def gather_agents(
    listening: ListenAddress, *, count: int, timeout_s: float, notify: Callable[[str], None]
) -> list[control.Hello]:
    """Wait until as many agents are there; they keep waiting, and join the run that follows.

    Args:
        listening: where they connect.
        count: how many; later ones are told to wait as well.
        timeout_s: how long to wait.
        notify: receives a line whenever one has joined.

    Returns:
        What they said of themselves, in the order of their names.

    Raises:
        RunError: too few have come.
        HostError: the address cannot be used, or no descriptor is left for an agent.
    """
    gathering = _Gathering(count, notify)
    with scratch_folder() as folder:
        own = secrets.token_urlsafe(24)  # nobody knows it: no agent of this command is started yet
        async with serve_control(
            gathering, f"unix:{folder}/gather.sock", token=own, run_id="(to be planned)", listening=listening
        ):
            try:
                async with asyncio.timeout(timeout_s):
                    while not gathering.complete.done():
                        reserve(descriptors=1)  # without one gRPC lets agents wait, and tells nobody
                        await asyncio.wait([gathering.complete], timeout=PERIOD_S)
            except TimeoutError:
                raise RunError(gathering.problem(timeout_s)) from None
    return gathering.agents


class _Gathering:
    """Implements AgentListener: lets nobody in, and remembers who came."""

    def __init__(self, count: int, notify: Callable[[str], None]) -> None:
        self._count, self._notify = count, notify
        self._hellos: dict[str, control.Hello] = {}
        self.complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def agents(self) -> list[control.Hello]:
        """In the order of their names, numbers by value: agent-2 before agent-10."""
        return sorted(self._hellos.values(), key=lambda hello: _natural(hello.agent))

    def admit(self, channel: AgentChannel) -> str | None:
        """See AgentListener."""
        hello = channel.hello
        if not hello.stays:
            return "this run builds its topology from waiting agents: start them with `charkha agent start`"
        if not self.complete.done() and hello.agent not in self._hellos:
            self._hellos[hello.agent] = hello
            self._notify(f"agent {hello.agent} has joined: {len(self._hellos)} of {self._count}")
            if len(self._hellos) == self._count:
                self.complete.set_result(None)
        return "the run is planned when all agents are here"

    def heard(self, channel: AgentChannel, message: control.JobMessage[Any]) -> None:
        """See AgentListener: those who wait have nothing to say."""

    def lost(self, channel: AgentChannel, reason: str) -> None:
        """See AgentListener: nobody is let in."""

    def problem(self, timeout_s: float) -> str:
        """Who has not come."""
        here = f"only {', '.join(one.agent for one in self.agents)} joined" if self._hellos else "none joined"
        return f"the topology waits for {self._count} agents, and {here} within {timeout_s:g} s (--join-timeout)"


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,18})", name)]
