"""All flows that an agent plays beside its ranks, from meeting their peers to their reports.

A flow is played by an actor; kinds are loaded by name: few runs have flows. To add one: a module with a function `make`
that returns a FlowActor, its name in emulator/plugins.py, and a section in run specs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from agents.host.limits import Limits
from emulator.control.flows import FlowFigures, FlowReport, FlowTask
from emulator.errors import EmulatorError, RemoteProtocolError, RunError
from emulator.plugins import BUILT_IN, PluginKind, load


class FlowActor(Protocol):
    """One flow. Everything it starts ends with `close`."""

    @property
    def waiting_for(self) -> str:
        """What it waits for, in words."""
        ...

    @property
    def addresses(self) -> Sequence[str]:
        """Numeric addresses that it plays at, connects to, and sends to."""
        ...

    async def prepare(self) -> None:
        """Meet the peer, before any traffic.

        Raises:
            EmulatorError: the peer does not answer or is not what it should be, or this host lacks something.
        """
        ...

    async def play(self, at_ns: int) -> None:
        """Traffic, from the moment that the clock reaches `at_ns` until the flow is complete.

        Raises:
            EmulatorError: it cannot be completed.
        """
        ...

    def end(self) -> None:
        """The job is over: a flow without an end of its own ends, and `play` returns soon."""
        ...

    def figures(self) -> Sequence[FlowFigures]:
        """What has been counted so far."""
        ...

    def close(self) -> None:
        """Stop at once; idempotent."""
        ...


def make_actor(task: FlowTask, device: str | None) -> FlowActor:
    """The actor of a flow.

    Args:
        task: what to play.
        device: interface to bind to; None: any.

    Raises:
        RemoteProtocolError: the controller knows kinds that this agent does not, or describes it wrongly.
    """
    if task.kind not in BUILT_IN[PluginKind.FLOWS]:
        raise RemoteProtocolError(
            f"{task.title}: this agent plays only flows of kind {', '.join(BUILT_IN[PluginKind.FLOWS])}"
        )
    try:
        actor: FlowActor = load(PluginKind.FLOWS, task.kind)(task, device)
    except ValueError as error:
        raise RemoteProtocolError(f"{task.title}: the controller's description is invalid: {error}") from error
    return actor


class Flows:
    """The flows of an agent, on the running event loop.

    Args:
        tasks: what to play.
        devices: address → interface; other addresses may use any.
        fail: called with the reason if a flow cannot be completed.
        limits: of this machine's owner, or of the topology.
        make: makes an actor.

    Raises:
        HostError: a flow goes beyond the limits.
    """

    def __init__(
        self,
        tasks: Sequence[FlowTask],
        devices: Mapping[str, str],
        fail: Callable[[str], None],
        *,
        limits: Limits,
        make: Callable[[FlowTask, str | None], FlowActor] = make_actor,
    ) -> None:
        self._tasks, self._fail = {task.number: task for task in tasks}, fail
        self._actors = {task.number: make(task, devices.get(task.host)) for task in tasks}
        for number, actor in self._actors.items():
            for address in actor.addresses:
                limits.check_address(address, self._tasks[number].title)
        self._playing: dict[int, asyncio.Task[None]] = {}
        self._complete: set[int] = set()
        self._met: set[int] = set()
        self._counted = 0

    def __bool__(self) -> bool:
        return bool(self._tasks)

    async def prepare(self) -> None:
        """Meet all peers.

        Raises:
            EmulatorError: one cannot be met; the message names the flow.
        """
        preparing = [asyncio.create_task(self._prepare(number)) for number in self._tasks]
        try:
            await asyncio.gather(*preparing)
        finally:
            for one in preparing:
                one.cancel()

    def start(self, at_ns: int) -> None:
        """Begin all flows when the clock reaches `at_ns`; once."""
        if not self._playing:
            self._playing = {number: asyncio.create_task(self._play(number, at_ns)) for number in self._tasks}

    async def finish(self) -> None:
        """The job is over: wait until every flow has ended; one that fails calls `fail`."""
        for number, actor in self._actors.items():
            if number not in self._complete:
                actor.end()
        await asyncio.gather(*self._playing.values())

    def close(self) -> None:
        """Stop all at once; idempotent."""
        for playing in self._playing.values():
            playing.cancel()
        for actor in self._actors.values():
            actor.close()

    @property
    def waiting_on(self) -> str:
        """What the flows that have not ended wait for, in words; "": nothing."""
        pending = self._actors.keys() - (self._complete if self._playing else self._met)
        return "; ".join(f"{self._tasks[one].title}: {self._actors[one].waiting_for}" for one in sorted(pending))

    def has_moved(self) -> bool:
        """Whether anything was counted since the last call."""
        counted = sum(one.bytes for actor in self._actors.values() for one in actor.figures())
        before, self._counted = self._counted, counted
        return counted != before

    def reports(self) -> list[FlowReport]:
        """What came of them so far."""
        return [
            FlowReport(number, number in self._complete, list(actor.figures()))
            for number, actor in self._actors.items()
        ]

    async def _prepare(self, number: int) -> None:
        await self._named(number, self._actors[number].prepare())
        self._met.add(number)

    async def _play(self, number: int, at_ns: int) -> None:
        try:
            await self._named(number, self._actors[number].play(at_ns))
            self._complete.add(number)
        except EmulatorError as error:
            self._fail(str(error))
        except Exception as error:  # the root of a task
            self._fail(f"{self._tasks[number].title}: internal error ({type(error).__name__}: {error})")

    async def _named(self, number: int, work: Awaitable[None]) -> None:
        """Some work of a flow; its errors name the flow."""
        try:
            await work
        except EmulatorError as error:
            raise RunError(f"{self._tasks[number].title}: {error}") from error
