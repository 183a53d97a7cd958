"""The bed of transports on real sockets: ranks spread over agents that in one process share the loop but no socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Generic, Self, TypeVar

from agents.transports.base import Endpoint, Transport
from tests.integration.transport_conformance import Bed

DEADLINE_S = 60

AnyTransport = TypeVar("AnyTransport", bound=Transport)
AnyBed = TypeVar("AnyBed", bound="SocketBed[Transport]")


class SocketBed(Bed, Generic[AnyTransport]):
    """Rank r is with transport r modulo their number, at the address that `host` says."""

    transports: Sequence[AnyTransport]

    def host(self, rank: int) -> str:
        """Where a rank listens."""
        raise NotImplementedError

    async def open(self, rank: int) -> Endpoint:
        return await self.transports[rank % len(self.transports)].open(rank, self.host(rank))

    async def until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not reached():  # noqa: ASYNC110 transports call back and know nothing of asyncio.Event
                await asyncio.sleep(0.0005)

    async def quiesce(self) -> None:
        await asyncio.sleep(0.05)

    async def __aenter__(self) -> Self:
        self._stack = AsyncExitStack()
        for transport in self.transports:
            await self._stack.enter_async_context(transport)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()


def play(
    make: Callable[..., AnyBed],
    scenario: Callable[[AnyBed], Coroutine[None, None, None]],
    *,
    agents: int = 2,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    **options: object,
) -> None:
    """Run a scenario on a bed one in agents, made on the loop; nothing may end in the loop's exception handler."""

    async def within() -> None:
        errors: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        async with make(agents, **options) as bed:
            await scenario(bed)
        assert errors == []

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(within())
