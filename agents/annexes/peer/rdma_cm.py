"""What perftest does with -R: rdma_cm connects all queue pairs, and one of them carries the exchange.

The first connection to the port is that of the exchange; each block is a SEND. Those of the test follow, over the same
port, once both ends have agreed on the path MTU.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from agents.annexes.peer.connections import Connection, ConnectionManager, ConnectionRejected, Local
from agents.annexes.peer.conversation import ANSWER_S, Conversation
from agents.annexes.peer.exchange import QpRecord
from agents.nic.channel import Channel
from agents.nic.nic import StandaloneNic
from emulator.errors import RemoteProtocolError, RunError
from emulator.roce.connection.memory import EVERYTHING, Memory
from emulator.roce.connection.messages import ConnectionSettings, Delivered, Message, Verb
from emulator.roce.connection.qp_facts import QpFacts
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.constants import FIRST_SOURCE_PORT
from emulator.roce.wire.opcodes import PacketOperation
from emulator.roce.wire.packet import Packet
from emulator.roce.wire.psn import Psn

T = TypeVar("T")

EXCHANGE_PATH_MTU = 1024
"""More than any block has."""
RETRY_S, TRIES = 0.1, 30
"""A server listens for the queue pairs of the test a moment after it has said so."""
GOODBYE_S = 15.0
"""Linux repeats a request to disconnect after 4 s."""


class SendStream:
    """A connected queue pair. Implements Stream with SENDs, and owns the queue pair (see agents.nic.channel.Owner).

    Args:
        alone: the NIC of this end.
        connection: see Connection.
        path_mtu: bytes.
        memory: what the peer may access.

    Attributes:
        reason: why the queue pair failed; "" if it did not.
        pair: the queue pair.
    """

    def __init__(
        self,
        alone: StandaloneNic,
        connection: Connection,
        *,
        path_mtu: int = EXCHANGE_PATH_MTU,
        memory: Memory = EVERYTHING,
    ) -> None:
        self._alone, self._connection = alone, connection
        self.host, self.peer_host, self.ended = alone.nic.host, connection.host, asyncio.Event()
        self._blocks: asyncio.Queue[bytes] = asyncio.Queue()
        self._read, self.reason = bytearray(), ""
        self._awaited: Message | None = None
        self._finished = asyncio.Event()
        local = connection.local
        facts = QpFacts(
            host=self.host,
            peer_host=connection.host,
            qpn=local.qpn,
            peer_qpn=connection.peer_qpn,
            psn=connection.send_psn,
            peer_psn=local.psn,
            rkey=0,
            source_ports=(FIRST_SOURCE_PORT | local.qpn & 0x3FFF,),
        )
        settings = ConnectionSettings(path_mtu=path_mtu, window_packets=16, ack_interval=1)
        self.pair = QueuePair(settings, facts.psn, facts.peer_psn, memory)
        context = alone.nic.context.with_path_mtu(path_mtu)
        self._channel: Channel = alone.nic.create_foreign(facts, self.pair, self, sink=self._take, context=context)
        self._watching = asyncio.create_task(self._watch())

    def write(self, block: bytes) -> None:
        """See Stream."""
        self._post(Message(Verb.SEND, len(block), content=block))

    async def finish(self, message: Message) -> bytes:
        """Send a message, and wait until the peer has it; returns what a READ has read.

        Raises:
            IncompleteReadError: the connection ended before.
        """
        self._awaited = message
        self._finished.clear()
        self._read.clear()
        self._post(message)
        await self._unless_ended(self._finished.wait())
        return bytes(self._read)

    def _post(self, message: Message) -> None:
        if not self.ended.is_set():
            self._channel.post(message)
            self._channel.send(time.monotonic_ns())
            self._alone.passes.watch()

    async def read(self, size: int) -> bytes:
        """See Stream."""
        if not size:
            return b""
        block = await self._unless_ended(self._blocks.get(), size)
        if len(block) != size:
            raise RemoteProtocolError(
                f"{self.peer_host} sent {len(block)} bytes, {block[:32]!r}, where {size} are expected: does it run the "
                "same test?"
            )
        return block

    async def _unless_ended(self, what: Coroutine[Any, Any, T], size: int = 0) -> T:
        getting, ending = asyncio.create_task(what), asyncio.create_task(self.ended.wait())
        try:
            await asyncio.wait([getting, ending], return_when=asyncio.FIRST_COMPLETED)
            if not getting.done():
                raise asyncio.IncompleteReadError(b"", size)
            return getting.result()
        finally:
            getting.cancel()
            ending.cancel()

    async def until_closed(self) -> None:
        """See Stream."""
        await self.ended.wait()

    def close(self) -> None:
        """See Stream."""
        self._watching.cancel()
        self._channel.close()

    def delivered(self, index: int, delivered: Delivered, now: int) -> None:
        """See Owner; blocks come by `_take`."""

    def completed(self, index: int, messages: Sequence[Message], now: int) -> None:
        """See Owner."""
        if any(one is self._awaited for one in messages):
            self._finished.set()

    def broke(self, reason: str) -> None:
        """See Owner."""
        self.reason = reason
        self.ended.set()

    def _take(self, packet: Packet) -> None:
        operation = packet.meaning.operation
        if operation is PacketOperation.SEND:
            self._blocks.put_nowait(bytes(packet.payload))
        elif operation is PacketOperation.READ_RESPONSE:
            self._read += packet.payload

    async def _watch(self) -> None:
        await self._connection.ended.wait()
        self.ended.set()


class CmLink:
    """All connections with one peer.

    Args:
        alone: the NIC of this end.
        peer_host: the only address that is connected to, or accepted.
        port: of rdma_cm.
    """

    def __init__(self, alone: StandaloneNic, peer_host: str, port: int) -> None:
        self._alone, self._peer_host, self._port = alone, peer_host, port
        self._manager = ConnectionManager(alone.nic, only=peer_host)
        self._qpn = random.randrange(0x100, 0xFF0000)
        self._made: list[Connection] = []
        self._is_client = False

    async def connect(self) -> Conversation:
        """Connect the queue pair of the exchange.

        Raises:
            RunError: nobody listens.
        """
        self._is_client = True
        try:
            connection = await self._manager.connect(self._peer_host, self._port, self._local(EXCHANGE_PATH_MTU))
        except RemoteProtocolError as error:
            raise RunError(
                f"no perftest with rdma_cm listens at {self._peer_host}, port {self._port} ({error}): start its server "
                "first, with -R"
            ) from error
        return self._conversation(connection)

    async def accept(self) -> Conversation:
        """Wait for the queue pair of the exchange."""
        self._manager.listen(self._port, lambda request, host: self._local(request.path_mtu))
        return self._conversation(await self._manager.accepted())

    async def connect_pairs(self, count: int, path_mtu: int) -> list[Connection]:
        """Connect the queue pairs of the test; a server takes the path MTU of the client.

        Raises:
            RunError: the peer rejects them.
            RemoteProtocolError: it does not answer.
        """
        made = [await (self._connect(path_mtu) if self._is_client else self._accepted()) for _ in range(count)]
        self._made += made
        return made

    async def disconnect(self) -> None:
        """End all connections, those of the test first; a server waits for its client to begin.

        It then ends them from its side too: a request or an answer of the client may have been lost.
        """
        exchange, *pairs = self._made
        if not self._is_client and pairs:
            endings = [asyncio.create_task(connection.ended.wait()) for connection in pairs]
            await asyncio.wait(endings, timeout=GOODBYE_S, return_when=asyncio.FIRST_COMPLETED)
            for ending in endings:
                ending.cancel()
        for group in (pairs, [exchange]):
            await asyncio.gather(*(self._manager.disconnect(one, again=not self._is_client) for one in group))

    async def leave(self) -> None:
        """End all connections at once, after a failure."""
        await self._manager.leave()

    def _conversation(self, connection: Connection) -> Conversation:
        self._made.append(connection)
        return Conversation(SendStream(self._alone, connection), is_client=self._is_client)

    async def _accepted(self) -> Connection:
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self._manager.accepted()
        except TimeoutError as error:
            raise RunError(
                f"{self._peer_host} did not connect all queue pairs within {ANSWER_S:g} s: does it run the same test?"
            ) from error

    async def _connect(self, path_mtu: int) -> Connection:
        for _ in range(TRIES):
            try:
                return await self._manager.connect(self._peer_host, self._port, self._local(path_mtu))
            except ConnectionRejected as error:
                problem = error
                await asyncio.sleep(RETRY_S)
        raise RunError(str(problem)) from problem

    def _local(self, path_mtu: int) -> Local:
        self._qpn += 1
        return Local(qpn=self._qpn, psn=Psn(random.getrandbits(24)), path_mtu=path_mtu)


def in_order(theirs: Sequence[QpRecord], connections: Sequence[Connection]) -> list[Connection]:
    """The connections of a server in the order of its client's records: if a request was lost, others came first.

    Raises:
        RemoteProtocolError: the client describes a queue pair that it has not connected.
    """
    found = {connection.peer_qpn: connection for connection in connections}
    for record in theirs:
        if record.qpn not in found:
            raise RemoteProtocolError(f"the peer describes queue pair {record.qpn:#x}, which it did not connect")
    return [found[record.qpn] for record in theirs]
