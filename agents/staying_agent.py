"""An agent that plays one run after another until it is stopped; `charkha agent start` starts it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from agents.agent import Agent
from agents.host.limits import Limits
from agents.host.ports import Ports
from emulator.control.wire.tls import TlsFiles
from emulator.errors import ControllerRefusal, EmulatorError, RunAborted, RunInterrupted

if TYPE_CHECKING:
    from agents.reporter import AgentMetrics

PAUSE_S = 1.0
"""After a run that could not be played."""
_PEAK_MEMORY = Path("/proc/self/clear_refs")
_FAREWELL_S = 1.0
"""How long an agent whose stdin ended may take to end in order."""


@dataclass(frozen=True, slots=True)
class StayingAgent:
    """The settings of an agent started by hand; see Agent.

    Attributes:
        report: called with a line of text when something begins or ends.
        metrics: updated with the progress of the run; None: nobody scrapes them.
        pause_s: between a run that could not be played and the next one.
        make: makes the agent of a run.
        until_eof: end when stdin is closed, as if interrupted: whoever started the agent is gone.
    """

    target: str
    name: str
    token: str = field(repr=False)
    ports: Ports | None = None
    limits: Limits = field(default_factory=Limits)
    tls: TlsFiles | None = None
    report: Callable[[str], None] = print
    metrics: AgentMetrics | None = None
    until_eof: bool = False
    pause_s: float = PAUSE_S
    make: Callable[..., Agent] = Agent

    async def serve(self) -> None:
        """Play runs until interrupted.

        Raises:
            RunInterrupted: SIGINT or SIGTERM was received; a run in progress is aborted.
            ControllerRefusal: the controller refuses this agent.
            HostError: an interface cannot be used, or the control stream would leave through it.
            InputError: a file of `tls` cannot be used.
        """
        if self.tls is not None:
            self.tls.channel_credentials()  # unusable files are an error now, not at every run
        loop, runs = asyncio.get_running_loop(), asyncio.current_task()
        assert runs is not None
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, runs.cancel)
        if self.until_eof:
            Thread(target=_end_with_stdin, args=(loop, runs), daemon=True).start()
        try:
            await self._play_runs()
        except asyncio.CancelledError:
            raise RunInterrupted from None

    async def _play_runs(self) -> None:
        """What a controller asks for again and again, and this agent refuses, is said once."""
        problem, is_repeated = None, False
        while True:
            if self.ports is not None:
                self.ports.check(self.target)
            if not is_repeated:
                self.report(f"waiting for a run at {self.target}")
            found = await self._play_one()
            is_repeated = found is not None and found == problem
            problem = found
            if found is not None:
                if not is_repeated:
                    self.report(found)
                await asyncio.sleep(self.pause_s)

    async def _play_one(self) -> str | None:
        """Why the run could not be played."""
        _forget_peak_memory()
        try:
            await self._agent().run()
        except ControllerRefusal:
            raise
        except RunAborted as error:
            self.report(f"the run is over: {error.reason}")
        except EmulatorError as error:
            return str(error)
        else:
            self.report("the run is over")
        finally:
            if self.metrics is not None:
                self.metrics.ended()
            gc.unfreeze()
            gc.collect()
        return None

    def _agent(self) -> Agent:
        return self.make(
            self.target,
            token=self.token,
            name=self.name,
            ports=self.ports,
            limits=self.limits,
            tls=self.tls,
            stays=True,
            report=self.report,
            metrics=self.metrics,
        )


def _end_with_stdin(loop: asyncio.AbstractEventLoop, runs: asyncio.Task[object]) -> None:
    """Wait, in a thread, for the end of stdin; then interrupt the agent, and end the process if it does not end."""
    with contextlib.suppress(OSError):  # closed from the start
        while os.read(0, 4096):
            pass
    loop.call_soon_threadsafe(runs.cancel)
    time.sleep(_FAREWELL_S)
    os._exit(RunInterrupted.exit_code)


def _forget_peak_memory() -> None:
    """Reset the kernel's peak of resident memory, so that the next run reports its own (proc_pid_clear_refs(5))."""
    with contextlib.suppress(OSError):
        _PEAK_MEMORY.write_text("5")
