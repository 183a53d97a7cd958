"""What is said to a controller or an agent over control ends in an answer or a named refusal, and leaves nothing."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import grpc
import pytest

from emulator.control import conversation as control
from emulator.control.wire.codec import decode_agent, decode_controller, encode_agent, encode_controller
from emulator.controller.roster.control_service import ControlService, Keys
from emulator.errors import RemoteProtocolError
from emulator.host.stderr_log import is_news
from tests.support.full import IS_FULL
from tests.support.hostile_control import AGENT_VALUES, CONTROLLER_VALUES, Anything, attack

MESSAGES = 1_000_000 if IS_FULL else 600
MOST_GROWTH_BYTES = 64 << 20
"""Of the second half of a long attack, which makes and forgets thousands of conversations."""


@pytest.mark.timeout(3600 if IS_FULL else 240)
@pytest.mark.parametrize("side", ["controller", "agent"])
def test_hostile_messages_are_refused_by_name(side: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    ends, memory = attack(side, MESSAGES)
    assert ends
    assert not [end for end in ends if "internal" in end]
    assert not IS_FULL or max(memory[-5:]) - max(memory[:5]) < MOST_GROWTH_BYTES


MADE: list[tuple[Callable[..., bytes], Callable[[bytes], Any], Callable[[Anything], Any]]] = [
    *((encode_agent, decode_agent, lambda any_, make=make: make(any_, 2, any_.number)) for make in AGENT_VALUES),
    *(
        (encode_controller, decode_controller, lambda any_, make=make: make(any_, any_.number, "127.0.0.1"))
        for make in CONTROLLER_VALUES
    ),
]


@pytest.mark.parametrize("number", range(len(MADE)))
def test_every_message_that_was_changed_is_read_or_refused_by_name(number: int) -> None:
    encode, decode, make = MADE[number]
    outcomes = set()
    for seed in range(100_000 if IS_FULL else 300):
        any_ = Anything(seed)
        try:
            decode(any_.damaged(encode(make(any_), 0)))
            outcomes.add("read")
        except RemoteProtocolError as error:
            outcomes.add(str(error))
    assert "read" in outcomes
    assert len(outcomes) > 1
    assert "" not in outcomes


SILENT_READER = bytes.fromhex("000006040000000000000400000000")  # SETTINGS: it takes no byte until it says so
HEADERS = (
    b"\x83\x86"  # POST, http
    + b"".join(
        name + bytes([len(value)]) + value
        for name, value in ((b"\x04", control.METHOD.encode()), (b"\x01", b"x"), (b"\x0f\x10", b"application/grpc"))
    )
    + b"\0\x02te\x08trailers"
)


async def test_a_stranger_that_does_not_read_is_refused_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What was written before is still under way, so that gRPC cannot end the stream with a reason."""
    service = ControlService(cast(Any, None), keys=Keys([bytes(32)]), run_id="run", greeting_s=0.1)
    over, session = asyncio.Event(), service._session

    async def observed(requests: Any, context: Any) -> None:
        try:
            await session(requests, context)
        finally:
            asyncio.get_running_loop().call_soon(over.set)

    monkeypatch.setattr(service, "_session", observed)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((service.handler(),))
    server.add_insecure_port(f"unix:{tmp_path}/control")
    await server.start()
    _, writer = await asyncio.open_unix_connection(f"{tmp_path}/control")
    try:
        hello = encode_agent(control.Hello(1, control.NEWEST_VERSION, "a", 1, "h", "0", 0, bytes(16)))
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SILENT_READER)
        for kind, content in ((1, HEADERS), (0, b"\0" + len(hello).to_bytes(4, "big") + hello)):
            writer.write(len(content).to_bytes(3, "big") + bytes([kind, 4 * kind, 0, 0, 0, 1]) + content)
        await asyncio.wait_for(over.wait(), 60)
    finally:
        writer.close()
        await server.stop(0)
    assert [one.getMessage() for one in caplog.records if is_news(one)] == ["refused unix:: it did not give its name"]
