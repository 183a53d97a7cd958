"""Runs one test with a peer, from the first connection to the results."""

from __future__ import annotations

import asyncio
import signal

from agents.peer.echo import run_echo
from agents.peer.session import PeerSession
from emulator.errors import RunInterrupted
from emulator.flows.perftest.echo import EchoResult, EchoTask
from emulator.flows.perftest.results import PeerResult
from emulator.flows.perftest.task import PeerTask


def run(task: PeerTask | EchoTask) -> PeerResult | EchoResult:
    """Run a test.

    Raises:
        EmulatorError: see PeerSession and `run_echo`; or the user has interrupted it.
    """
    return asyncio.run(_run(task))


async def _run(task: PeerTask | EchoTask) -> PeerResult | EchoResult:
    current, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert current is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, current.cancel)
    try:
        if isinstance(task, EchoTask):
            return await run_echo(task)
        with PeerSession(task) as session:
            await session.meet()
            return await session.play()
    except asyncio.CancelledError as error:
        raise RunInterrupted from error
