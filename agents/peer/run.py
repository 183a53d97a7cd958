"""Runs one test with a peer, from the first connection to the results."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import socket

from agents.peer.conversation import accept, connect
from agents.peer.session import PeerSession
from emulator.errors import InputError, RunInterrupted
from emulator.peer.results import PeerResult
from emulator.peer.task import PeerTask


def run(task: PeerTask) -> PeerResult:
    """Run a test.

    Raises:
        EmulatorError: see PeerSession; or the user has interrupted it.
    """
    return asyncio.run(_run(task))


async def _run(task: PeerTask) -> PeerResult:
    current, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert current is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, current.cancel)
    session = PeerSession(task.test, task.options, host=task.address, peer_host=task.peer_address)
    try:
        if task.server is not None:
            conversation = await connect(task.server, task.port)
        else:
            conversation = await accept(task.port, allowed=_resolved(task.client))
        with conversation:
            return await session.run(conversation)
    except asyncio.CancelledError as error:
        raise RunInterrupted from error


def _resolved(host: str) -> str:
    """The numeric address of a host."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise InputError(f"--from {host}: no such host ({error.strerror})") from error
    return str(ipaddress.ip_address(found[0][4][0]))
