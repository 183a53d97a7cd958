"""An agent's end of the control conversation against a controller that is busy: real gRPC on a Unix socket."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from agents.agent import Agent
from agents.control_link import ControlLink
from agents.host.limits import Limits
from emulator.control import conversation as control
from emulator.control.wire.codec import decode_agent, encode_controller
from emulator.errors import RemoteProtocolError, RunAborted

MESSAGES = 20


@contextlib.asynccontextmanager
async def served(folder: Path, handler: Callable[[AsyncIterator[bytes], Any], Awaitable[None]]) -> AsyncIterator[str]:
    """A controller of one function; yields where it listens."""
    service, method = control.METHOD.strip("/").split("/")
    methods = {method: grpc.stream_stream_rpc_method_handler(handler)}
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    target = f"unix:{folder}/control"
    server.add_insecure_port(target)
    await server.start()
    async with asyncio.timeout(60):
        yield target
    await server.stop(None)


async def test_what_an_agent_says_last_is_read_however_late(tmp_path: Path) -> None:
    heard: list[Any] = []

    async def read_slowly(requests: AsyncIterator[bytes], context: Any) -> None:
        async for message in requests:
            heard.append(decode_agent(message).value)
            await asyncio.sleep(0.01)

    async with served(tmp_path, read_slowly) as target, ControlLink(target) as link:
        for _ in range(MESSAGES):
            link.send(control.Ready())
        await link.drained()
    assert heard == [control.Ready()] * MESSAGES


async def test_a_busy_controller_hears_why_an_agent_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.agent.ABORT_S", 0.0)  # for the end of a run that the controller aborts
    heard: list[Any] = []

    async def read_late(requests: AsyncIterator[bytes], context: Any) -> None:
        await context.write(encode_controller(control.Finish()))
        await asyncio.sleep(0.1)
        heard.extend([decode_agent(message) async for message in requests])

    async with served(tmp_path, read_late) as target:
        with pytest.raises(RemoteProtocolError):
            await Agent(target, token="", name="a", limits=Limits()).run()
    assert [one.value for one in heard[1:]] == [control.Abort("the controller sent Finish instead of Challenge", ())]


async def test_an_agent_does_not_wait_for_a_command_that_stopped_before_it_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.control_link.CHECK_S", 0.02)
    with socket.socket(socket.AF_UNIX) as stopped:  # the kernel connects, and nobody answers
        stopped.bind(f"{tmp_path}/control")
        stopped.listen()
        async with asyncio.timeout(15), ControlLink(f"unix:{tmp_path}/control", patience_s=0.05) as link:
            with pytest.raises(RunAborted, match=r"the controller has sent nothing for 0.05 s"):
                await link.receive()


async def test_an_agent_leaves_a_controller_that_says_nothing_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.control_link.CHECK_S", 0.02)

    async def fall_silent(requests: AsyncIterator[bytes], context: Any) -> None:
        await context.write(encode_controller(control.Renew(lease_ms=50)))
        await asyncio.sleep(60)

    async with served(tmp_path, fall_silent) as target, ControlLink(target) as link:
        with pytest.raises(RunAborted, match=r"the controller has sent nothing for 0.05 s"):
            await link.receive()
        async with asyncio.timeout(60):
            await link.drained()
