"""Runs an agent in this process: event loop, exit code, one line on stderr if it fails."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable

from agents.agent import Agent
from agents.host.limits import Limits
from agents.staying_agent import StayingAgent
from emulator.errors import EmulatorError
from emulator.host.resources import exhausted, raise_priority, reserve
from emulator.visible import visible

DESCRIPTORS, THREADS, MEMORY_BYTES = 24, 12, 128 << 20
"""What an agent takes at least before it plays, most of it gRPC: seen to fail below about half of each."""


def run_agent(target: str, *, token: str, name: str, addresses: Iterable[str]) -> int:
    """Run one agent until its run is over; it plays at and sends to `addresses` only.

    Returns:
        The exit code: 0 if the run finished, else that of the error, which is printed to stderr.
    """
    raise_priority()
    try:
        reserve(descriptors=DESCRIPTORS, threads=THREADS, memory_bytes=MEMORY_BYTES)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            limits = Limits(addresses=frozenset(addresses))
            runner.run(Agent(target, token=token, name=name, limits=limits).run())
    except EmulatorError as error:
        return _report(error, name)
    except Exception as error:  # the root: the controller passes the line on
        return _report(exhausted(error) or EmulatorError(f"internal error: {error!r}"), name)
    return 0


def _report(error: EmulatorError, name: str) -> int:
    print(f"charkha agent {visible(name)}: {visible(str(error))}", file=sys.stderr)
    return error.exit_code


def run_staying_agent(agent: StayingAgent) -> None:
    """Play one run after another until interrupted.

    Raises:
        EmulatorError: see StayingAgent.serve.
    """
    raise_priority()
    reserve(descriptors=DESCRIPTORS, threads=THREADS, memory_bytes=MEMORY_BYTES)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(agent.serve())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
