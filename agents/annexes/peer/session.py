"""Runs a test with a stock perftest: meets it, makes queue pairs, sends or receives, swaps results."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from types import TracebackType
from typing import Any, TypeVar

from agents.annexes.peer.connections import Connection
from agents.annexes.peer.conversation import ANSWER_S, BEGIN_S, Conversation, accept, address_towards, connect, resolved
from agents.annexes.peer.exchange import (
    OVER_RDMA,
    OVER_TCP,
    QpRecord,
    conclude,
    confirm,
    greet,
    introduce,
    meet,
)
from agents.annexes.peer.rdma_cm import CmLink, in_order
from agents.annexes.peer.traffic import PeerTraffic
from agents.nic.nic import StandaloneNic
from emulator.errors import InputError, RunError
from emulator.flows.perftest_parameters import PeerTask, PeerTest, TestVerb
from emulator.flows.perftest_results import BandwidthReport, PeerResult
from emulator.roce.connection.memory import Memory, MemoryRegion
from emulator.roce.connection.messages import ConnectionSettings
from emulator.roce.connection.qp_facts import QpFacts
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.constants import FIRST_SOURCE_PORT
from emulator.roce.options import RoceOptions
from emulator.roce.wire.psn import Psn

T = TypeVar("T")

_FIRST_WINDOW_PACKETS = 64
"""What the least capable endpoint known takes without loss, of all queue pairs; windows grow from there."""
_LEAST_WINDOW_PACKETS = 4
_LARGEST_WINDOW_BYTES = 1 << 20
_BUFFER_ADDRESS = 0x10000
_LAST_ACK_S = 0.3


class PeerSession:
    """One test with one peer: `meet` it, `play`, then `close`. A context manager that closes it.

    Args:
        task: what to run, and with whom.
        device: interface to bind the sockets of the NIC to; None: any.

    Attributes:
        test: what is run; its path MTU is that of the task until both ends have agreed on one.
    """

    def __init__(self, task: PeerTask, *, device: str | None = None) -> None:
        self.test, self._task, self._device = task.test, task, device
        self._form = OVER_RDMA if task.rdma_cm else OVER_TCP
        self._closing = ExitStack()
        self._conversation: Conversation | None = None
        self._link: CmLink | None = None
        self._traffic: PeerTraffic | None = None
        self._version = ""
        self._report: BandwidthReport | None = None
        self._is_told_to_end = False

    def __enter__(self) -> PeerSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop at once; idempotent."""
        self._closing.close()

    def end(self) -> None:
        """A test without an end of its own ends; `play` returns soon."""
        self._is_told_to_end = True
        if self._traffic is not None:
            self._traffic.end()

    async def meet(self) -> None:
        """Meet the peer and make the queue pairs; a server waits as long as it takes.

        Raises:
            RunError: the peer cannot be reached, is gone or does not answer.
            RemoteProtocolError: it sent something else than perftest does.
            InputError: its queue pairs are at an address that is not its own.
            HostError: the address or port 4791 of this host cannot be used.
        """
        async with self._or_leave():
            await self._meet()

    async def play(self) -> PeerResult:
        """Send and receive to the end.

        Raises:
            RunError: the peer is gone, or a queue pair failed.
            RemoteProtocolError: it sent something else than perftest does.
        """
        async with self._or_leave():
            return await self._play()

    @asynccontextmanager
    async def _or_leave(self) -> AsyncIterator[None]:
        """Whatever fails, the peer learns that its connections have ended."""
        try:
            yield
        except BaseException:
            if self._link is not None:
                await self._link.leave()
            raise

    async def _meet(self) -> None:
        alone, conversation = await (self._meet_over_rdma() if self._task.rdma_cm else self._meet_over_tcp())
        self._closing.callback(conversation.stream.close)
        self._conversation = conversation
        greeting = await conversation.play(greet(self.test))
        path_mtu, self._version = greeting.path_mtu, greeting.version
        ours = _records(self.test, alone.nic.host)
        connections: list[Connection] = []
        if self._link is not None:
            await conversation.play(meet(ours[0], self._form))
            connections = await self._link.connect_pairs(self.test.queue_pairs, path_mtu)
            path_mtu = connections[0].path_mtu
            ours = [dataclasses.replace(one, qpn=of.local.qpn) for one, of in zip(ours, connections, strict=True)]
            await conversation.play(meet(ours[0], self._form))
        theirs = await conversation.play(introduce(self.test, ours, self._form))
        if connections:
            if not conversation.is_client:
                connections = in_order(theirs, connections)
            ends = [_connected(*one) for one in zip(ours, theirs, connections, strict=True)]
            ours, theirs = [one for one, _ in ends], [one for _, one in ends]
        self._check(theirs, self._task.peer_address or conversation.peer_host)
        self.test = dataclasses.replace(self.test, path_mtu=path_mtu)
        self._ours, self._theirs = ours, theirs
        self._traffic = self._attach(alone, greeting.buffer_bytes)
        if self._is_told_to_end:
            self._traffic.end()

    async def _play(self) -> PeerResult:
        test, traffic, conversation, form = self.test, self._traffic, self._conversation, self._form
        assert traffic is not None
        assert conversation is not None
        beginning = conversation.play(confirm(test, self._ours, form), first_s=BEGIN_S)
        await _while_alive(beginning, traffic, conversation)
        await _while_alive(_play(test, traffic, is_client=conversation.is_client), traffic, conversation)
        ending = conversation.play(conclude(test, self._ours, _report(test, traffic), form), first_s=_patience_s(test))
        report = await _while_alive(ending, traffic)
        traffic.check_reads()
        # A server that has sent nothing reports memory that it never set.
        self._report = None if conversation.is_client and not test.is_bidirectional else report
        if test.verb is TestVerb.WRITE_LATENCY:  # this test ends without a word: its peer may still need our ACKs
            await _soon(conversation) if self._link is not None else await conversation.stream.until_closed()
        if self._link is not None:
            await self._link.disconnect()
        return self.result()

    def result(self) -> PeerResult:
        """What has been counted so far, once both ends have met."""
        traffic, conversation = self._traffic, self._conversation
        assert traffic is not None
        assert conversation is not None
        return PeerResult(
            test=self.test,
            role="client" if conversation.is_client else "server",
            host=self._ours[0].host,
            peer_host=self._theirs[0].host,
            peer_version=self._version,
            sent=traffic.sent(),
            received=traffic.received(),
            peer=self._report,
        )

    @property
    def has_met(self) -> bool:
        """Whether there is a result."""
        return self._traffic is not None

    async def _meet_over_tcp(self) -> tuple[StandaloneNic, Conversation]:
        task = self._task
        if task.server is not None:
            conversation = await connect(task.server, task.port, local=task.exchange_address)
        else:
            conversation = await accept(task.port, allowed=resolved(task.client))
        try:
            return self._open_nic(task.address or conversation.host), conversation
        except BaseException:
            conversation.stream.close()
            raise

    async def _meet_over_rdma(self) -> tuple[StandaloneNic, Conversation]:
        task = self._task
        peer_host = task.peer_address or resolved(task.client if task.server is None else task.server)
        alone = self._open_nic(task.address or address_towards(peer_host))
        self._link = CmLink(alone, peer_host, task.port)
        return alone, await (self._link.accept() if task.server is None else self._link.connect())

    def _open_nic(self, host: str) -> StandaloneNic:
        options = dataclasses.replace(self._task.options, path_mtu=self.test.path_mtu)
        return self._closing.enter_context(StandaloneNic(host, options, device=self._device))

    def _attach(self, alone: StandaloneNic, buffer_bytes: int) -> PeerTraffic:
        test, context = self.test, alone.nic.context.with_path_mtu(self.test.path_mtu)
        traffic = PeerTraffic(test, self._theirs, alone.passes, path_mtu=test.path_mtu)
        channels = []
        for index, (ours, theirs) in enumerate(zip(self._ours, self._theirs, strict=True)):
            pair = _queue_pair(context.options, ours, theirs, buffer_bytes, queue_pairs=test.queue_pairs)
            facts = _facts(ours, theirs)
            channels.append(
                alone.nic.create_foreign(facts, pair, traffic, index=index, refused=traffic.refused, context=context)
            )
        traffic.attach(channels)
        return traffic

    def _check(self, peers: Sequence[QpRecord], allowed: str) -> None:
        for record in peers:
            if record.host != allowed:
                raise InputError(
                    f"the peer's queue pair is at {record.host}, not at {allowed}: Charkha does not send there; if "
                    f"it is the NIC under test, give --peer-address {record.host}"
                )


async def _play(test: PeerTest, traffic: PeerTraffic, *, is_client: bool) -> None:
    """The part of an end; whoever only answers returns at once."""
    if test.verb in (TestVerb.WRITE_LATENCY, TestVerb.SEND_LATENCY):
        # With WRITEs the server begins, with SENDs the client.
        await traffic.ping_pong(is_first=is_client is (test.verb is TestVerb.SEND_LATENCY))
    elif is_client or test.is_bidirectional:
        await traffic.stream()
    if test.verb is TestVerb.SEND and test.iterations and (not is_client or test.is_bidirectional):
        await traffic.receive()


async def _while_alive(
    work: Coroutine[Any, Any, T], traffic: PeerTraffic, conversation: Conversation | None = None
) -> T:
    """The result of some work, unless a queue pair fails or the peer goes away before."""
    task = asyncio.create_task(work)
    others: list[asyncio.Future[Any]] = [traffic.failure]
    gone = asyncio.create_task(conversation.ended.wait()) if conversation is not None else None
    if gone is not None:
        others.append(gone)
    try:
        await asyncio.wait([task, *others], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if traffic.failure.done():
            traffic.failure.result()
        assert conversation is not None
        done, _ = await asyncio.wait([task], timeout=_LAST_ACK_S)  # the peer may have finished a moment before
        if done:
            return task.result()
        raise RunError(f"{conversation.peer_host} disconnected during the test: its own output has the reason")
    finally:
        for one in (task, gone):
            if one is not None:
                one.cancel()


async def _soon(conversation: Conversation) -> None:
    """Wait a moment for the peer to end the connection."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_LAST_ACK_S):
            await conversation.stream.until_closed()


def _connected(ours: QpRecord, theirs: QpRecord, connection: Connection) -> tuple[QpRecord, QpRecord]:
    """A queue pair as rdma_cm has connected it; the record of a peer has its memory, but not always its address."""
    local = connection.local
    return (
        dataclasses.replace(ours, qpn=local.qpn, psn=connection.send_psn),
        dataclasses.replace(theirs, qpn=connection.peer_qpn, psn=local.psn, host=connection.host),
    )


def _patience_s(test: PeerTest) -> float | None:
    """How long the peer can take until it ends the test: a server that only answers cannot know."""
    return None if not test.verb.is_latency or test.duration_s else ANSWER_S


def _records(test: PeerTest, host: str) -> list[QpRecord]:
    """New queue pairs: their numbers and first PSNs are random, so that late packets of earlier tests are strangers."""
    first = random.randrange(0x100, 0xFF0000)
    return [
        QpRecord(
            qpn=first + index,
            psn=random.getrandbits(24),
            rkey=random.getrandbits(32),
            address=_BUFFER_ADDRESS,
            host=host,
            outstanding_reads=ConnectionSettings().max_rd_atomic,
        )
        for index in range(test.queue_pairs)
    ]


def _facts(ours: QpRecord, theirs: QpRecord) -> QpFacts:
    return QpFacts(
        host=ours.host,
        peer_host=theirs.host,
        qpn=ours.qpn,
        peer_qpn=theirs.qpn,
        psn=Psn(ours.psn),
        peer_psn=Psn(theirs.psn),
        rkey=ours.rkey,
        source_ports=(FIRST_SOURCE_PORT | ours.qpn & 0x3FFF,),
    )


def _queue_pair(
    options: RoceOptions, ours: QpRecord, theirs: QpRecord, buffer_bytes: int, *, queue_pairs: int
) -> QueuePair:
    first = max(_LEAST_WINDOW_PACKETS, _FIRST_WINDOW_PACKETS // queue_pairs)
    window = max(first, _LARGEST_WINDOW_BYTES // options.path_mtu // queue_pairs)
    settings = ConnectionSettings(
        path_mtu=options.path_mtu,
        window_packets=window,
        ack_interval=first // 2,
        timeout_exponent=options.qp_timeout,
        max_rd_atomic=max(1, min(theirs.outstanding_reads, ConnectionSettings().max_rd_atomic)),
        initial_window_packets=first,
    )
    region = MemoryRegion(rkey=ours.rkey, address=ours.address, length=buffer_bytes)
    return QueuePair(settings, Psn(ours.psn), Psn(theirs.psn), Memory([region]))


def _report(test: PeerTest, traffic: PeerTraffic) -> BandwidthReport:
    sent = traffic.sent()
    seconds = sent.duration_ns / 1e9
    rate = sent.messages / seconds if seconds else 0.0
    average = rate * test.size_bytes / (1 << 20)  # MiB/s, the unit of perftest unless its user chooses another
    return BandwidthReport(
        size_bytes=test.size_bytes, iterations=sent.messages, peak=0.0, average=average, messages_per_us=rate / 1e6
    )
