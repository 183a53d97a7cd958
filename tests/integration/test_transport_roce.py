import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack

import pytest
import uvloop

from agents.transports.base import Endpoint
from agents.transports.roce import RoceTransport
from agents.transports.roce_options import RoceOptions
from tests.integration.transport_conformance import CASES, Bed, Case

DEADLINE_S = 30
NET = f"127.{100 + os.getpid() % 100}.{os.getpid() // 100 % 250}"
"""Addresses of this process alone: port 4791 of each can be bound once."""


class RoceBed(Bed):
    """Ranks spread over so many agents, which in one process share the loop but no socket."""

    def __init__(self, agents: int, *, message_bytes: int = 4096, **options: object) -> None:
        super().__init__()
        self.message_bytes = message_bytes
        texts = {"path_mtu": 1024, "qp_timeout": 11, "window_bytes": 8 * message_bytes} | options
        parsed = RoceOptions.parse({name: str(value) for name, value in texts.items()})
        self.transports = [
            RoceTransport(message_bytes=message_bytes, options=parsed, run="conformance") for _ in range(agents)
        ]

    async def open(self, rank: int) -> Endpoint:
        return await self.transports[rank % len(self.transports)].open(rank, f"{NET}.{rank + 1}")

    async def until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not reached():  # noqa: ASYNC110 transports call back and know nothing of asyncio.Event
                await asyncio.sleep(0.0005)

    async def quiesce(self) -> None:
        await asyncio.sleep(0.05)

    async def __aenter__(self) -> "RoceBed":
        self._stack = AsyncExitStack()
        for transport in self.transports:
            await self._stack.enter_async_context(transport)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()


def run(
    scenario: Callable[[RoceBed], Coroutine[None, None, None]],
    *,
    agents: int = 2,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    **options: object,
) -> None:
    async def within() -> None:
        errors: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        async with RoceBed(agents, **options) as bed:  # type: ignore[arg-type]
            await scenario(bed)
        assert errors == []

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(within())


@pytest.mark.parametrize("agents", [1, 2])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_conformance(case: Case, agents: int) -> None:
    run(case, agents=agents)


@pytest.mark.parametrize(
    "options",
    [
        {"qps": 4},
        {"payload": "random", "path_mtu": 256},
        pytest.param({"receiver": "ooo", "qps": 2, "source_port": "message"}, marks=pytest.mark.slow),
        pytest.param({"path_mtu": 4096, "congestion": "dcqcn", "ecn": "off"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_conformance_with_options(case: Case, options: dict[str, object]) -> None:
    run(case, loop_factory=uvloop.new_event_loop, **options)
