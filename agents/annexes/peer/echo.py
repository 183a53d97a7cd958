"""Runs rping, or rdma_client with rdma_server, with a stock one at the other end."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from contextlib import closing

from agents.annexes.peer.connections import Connection, ConnectionManager, ConnectionRejected, Local
from agents.annexes.peer.conversation import ANSWER_S, address_towards, resolved
from agents.annexes.peer.rdma_cm import SendStream
from agents.annexes.peer.session import PeerSession
from agents.nic.nic import StandaloneNic
from emulator.errors import RunError, RunInterrupted
from emulator.flows.perftest_echo import (
    SEND_BYTES,
    Advertisement,
    EchoResult,
    EchoTask,
    Exchange,
    check_data,
    ping_data,
)
from emulator.flows.perftest_parameters import PeerTask
from emulator.flows.perftest_results import PeerResult
from emulator.roce.connection.memory import Memory, MemoryRegion
from emulator.roce.connection.messages import Message, Verb
from emulator.roce.wire.psn import Psn

_DATA_ADDRESS, _SINK_ADDRESS = 0x10000, 0x100000


async def run_echo(task: EchoTask) -> EchoResult:
    """Run a test.

    Raises:
        RunError: the peer cannot be reached, is gone, has other options or does not answer.
        RemoteProtocolError: it sent something else than the tool does, or wrong data.
        InputError: there is no such host.
        HostError: the address or port 4791 of this host cannot be used.
    """
    peer_host = resolved(task.client if task.server is None else task.server)
    host = task.address or address_towards(peer_host)
    with StandaloneNic(host, task.options) as alone:
        manager = ConnectionManager(alone.nic, only=peer_host)
        try:
            connection = await _connected(manager, task, peer_host)
            with closing(_Echo(alone, connection, task)) as echo:
                await echo.play()
                await manager.disconnect(connection)
                return echo.result()
        except BaseException:
            await manager.leave()
            raise


async def _connected(manager: ConnectionManager, task: EchoTask, peer_host: str) -> Connection:
    local = Local(qpn=random.randrange(0x100, 0xFF0000), psn=Psn(random.getrandbits(24)), path_mtu=task.test.path_mtu)
    if task.server is None:
        manager.listen(task.port, lambda request, host: local)
        return await manager.accepted()
    try:
        return await manager.connect(peer_host, task.port, local)
    except ConnectionRejected as error:
        command = task.test.command(peer_host, port=task.port, is_client=False)
        raise RunError(f"{error}: start `{command}` there first") from error


class _Echo:
    """One connection with such a tool."""

    def __init__(self, alone: StandaloneNic, connection: Connection, task: EchoTask) -> None:
        self._test, self._is_client = task.test, task.server is not None
        size = task.test.size_bytes
        self._data = MemoryRegion(
            rkey=random.getrandbits(31) * 2, address=_DATA_ADDRESS, length=size, content=bytearray(size)
        )
        self._sink = MemoryRegion(
            rkey=random.getrandbits(31) * 2 + 1, address=_SINK_ADDRESS, length=size, content=bytearray(size)
        )
        memory = Memory([self._data, self._sink] if self._is_client else [])
        self._stream = SendStream(alone, connection, path_mtu=connection.path_mtu, memory=memory)
        self._path_mtu = connection.path_mtu
        self._rounds, self._trips_ns = 0, list[int]()

    async def play(self) -> None:
        """Play all rounds; a server plays until its client disconnects."""
        try:
            if self._test.exchange is Exchange.RDMA_CLIENT:
                await self._swap()
            elif self._is_client:
                while self._rounds < self._test.rounds:
                    await self._ping(self._rounds)
            else:
                while (first := await self._next_ping()) is not None:
                    await self._pong(first, self._rounds)
        except asyncio.IncompleteReadError as error:
            raise self._gone() from error
        rounds, expected = self._rounds, self._test.rounds
        if expected not in (0, rounds):
            raise RunError(f"{self._stream.peer_host} disconnected after {rounds} rounds, --iters is {expected} here")
        if not self._rounds:
            raise self._gone()

    def close(self) -> None:
        """Stop at once."""
        self._stream.close()

    def result(self) -> EchoResult:
        """What has been counted."""
        requester, responder = self._stream.pair.requester, self._stream.pair.responder
        return EchoResult(
            test=self._test,
            role="client" if self._is_client else "server",
            host=self._stream.host,
            peer_host=self._stream.peer_host,
            path_mtu=self._path_mtu,
            rounds=self._rounds,
            round_trips_ns=tuple(self._trips_ns),
            packets=requester.sent_packets,
            retransmits=requester.retransmits,
            timeouts=requester.timeouts,
            naks=requester.naks,
            rnr_naks=requester.rnr_naks,
            duplicates=responder.duplicates,
        )

    async def _swap(self) -> None:
        """rdma_client's one message, and that of rdma_server."""
        begun_ns = time.monotonic_ns()
        if self._is_client:
            self._stream.write(bytes(SEND_BYTES))
            await self._receive("its message")
            self._trips_ns.append(time.monotonic_ns() - begun_ns)
        else:
            await self._receive("its message")
            await self._stream.finish(Message(Verb.SEND, SEND_BYTES, content=bytes(SEND_BYTES)))
        self._rounds = 1

    async def _ping(self, number: int) -> None:
        """A round of rping's client."""
        expected = ping_data(number, self._test.size_bytes)
        data, sink = self._data.content, self._sink.content
        assert data is not None
        assert sink is not None
        data[:], sink[:] = expected, bytes(len(sink))
        begun_ns = time.monotonic_ns()
        for region, what in ((self._data, "word that it has read"), (self._sink, "word that it has written")):
            self._stream.write(Advertisement(region.address, region.rkey, region.length).pack())
            await self._receive(what)
        self._trips_ns.append(time.monotonic_ns() - begun_ns)
        check_data(bytes(sink), expected, number=number, host=self._stream.peer_host)
        self._rounds += 1

    async def _next_ping(self) -> Advertisement | None:
        """What begins a round; None once the client has disconnected."""
        try:
            return await self._advertisement()
        except asyncio.IncompleteReadError:
            if self._stream.reason:
                raise
            return None

    async def _pong(self, first: Advertisement, number: int) -> None:
        """A round of rping's server."""
        read = Message(Verb.READ, first.size, first.address, rkey=first.rkey)
        data = await self._stream.finish(read)
        check_data(data, ping_data(number, first.size), number=number, host=self._stream.peer_host)
        self._stream.write(bytes(SEND_BYTES))
        second = await self._advertisement()
        await self._stream.finish(Message(Verb.WRITE, len(data), second.address, rkey=second.rkey, content=data))
        self._stream.write(bytes(SEND_BYTES))
        self._rounds += 1

    async def _advertisement(self) -> Advertisement:
        found = Advertisement.unpack(await self._receive("where its data is"))
        if found.size != self._test.size_bytes:
            raise RunError(
                f"{self._stream.peer_host} sends {found.size} bytes a round, --size is {self._test.size_bytes} here: "
                "give both ends the same size (rping -S)"
            )
        return found

    async def _receive(self, what: str) -> bytes:
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self._stream.read(SEND_BYTES)
        except TimeoutError as error:
            tool = self._test.exchange.tool(is_client=not self._is_client)
            raise RunError(
                f"{self._stream.peer_host} did not send {what} within {ANSWER_S:g} s: does it run {tool}?"
            ) from error

    def _gone(self) -> RunError:
        host, reason = self._stream.peer_host, self._stream.reason
        if reason:
            return RunError(f"the connection to {host} failed in round {self._rounds + 1}: {reason}")
        tool = self._test.exchange.tool(is_client=not self._is_client)
        size = (
            f" with the size of this end, {self._test.size_bytes} bytes"
            if self._test.exchange is Exchange.RPING
            else ""
        )
        return RunError(f"{host} disconnected in round {self._rounds + 1}: does it run {tool}{size}?")


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
