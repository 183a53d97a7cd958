"""The bed of transports on real sockets: ranks spread over agents that in one process share the loop but no socket."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Generic, Self, TypeVar

from agents.transports.base import Endpoint, Transport
from tests.integration.transport_conformance import Bed

DEADLINE_S = 60

AnyTransport = TypeVar("AnyTransport", bound=Transport)
AnyBed = TypeVar("AnyBed", bound="SocketBed[Transport]")


class SocketBed(Bed, Generic[AnyTransport]):
    """Rank r is with transport r modulo their number, at the address that `host` says.

    Nothing may end in the exception handler of the loop while it is open.
    """

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

    @asynccontextmanager
    async def ranks(self, count: int = 2) -> AsyncIterator[tuple[Any, ...]]:
        """The open bed, and so many connected ranks."""
        async with self:
            yield self, *await self.connected(count)

    async def __aenter__(self) -> Self:
        self._errors: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self._errors.append(context))
        self._stack = AsyncExitStack()
        for transport in self.transports:
            await self._stack.enter_async_context(transport)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()
        assert self._errors == []


def play(
    make: Callable[..., AnyBed],
    scenario: Callable[[AnyBed], Coroutine[None, None, None]],
    *,
    agents: int = 2,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    **options: object,
) -> None:
    """Run a scenario on a bed one in agents, made on the loop."""

    async def within() -> None:
        async with make(agents, **options) as bed:
            await scenario(bed)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(within())
