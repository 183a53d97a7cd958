"""An agent's end of the control conversation against a controller that is busy: real gRPC on a Unix socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc

from agents.control_link import ControlLink
from emulator.control import conversation as control
from emulator.wire.control.codec import decode_agent

MESSAGES = 20


def test_what_an_agent_says_last_is_read_however_late(tmp_path: Path) -> None:
    heard: list[Any] = []

    async def read_slowly(requests: AsyncIterator[bytes], context: Any) -> None:
        async for message in requests:
            heard.append(decode_agent(message).value)
            await asyncio.sleep(0.01)

    async def scenario() -> None:
        service, method = control.METHOD.strip("/").split("/")
        handler = grpc.stream_stream_rpc_method_handler(
            read_slowly,
        )
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
        target = f"unix:{tmp_path}/control"
        server.add_insecure_port(target)
        await server.start()
        async with asyncio.timeout(20), ControlLink(target) as link:
            for _ in range(MESSAGES):
                link.send(control.Ready())
            await link.drained()
        await server.stop(None)

    asyncio.run(scenario())
    assert heard == [control.Ready()] * MESSAGES
