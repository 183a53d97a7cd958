"""Runs an agent in this process: event loop, exit code, one line on stderr if it fails."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from agents.agent import Agent
from agents.staying_agent import StayingAgent
from emulator.errors import EmulatorError


def run_agent(target: str, *, token: str, name: str) -> int:
    """Run one agent until its run is over.

    Returns:
        The exit code: 0 if the run finished, else that of the error, which is printed to stderr.
    """
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(Agent(target, token=token, name=name).run())
    except EmulatorError as error:
        print(f"charkha agent {name}: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def run_staying_agent(agent: StayingAgent) -> None:
    """Play one run after another until interrupted.

    Raises:
        EmulatorError: see StayingAgent.serve.
    """
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(agent.serve())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
