"""Runs a test with a stock perftest: meets it over TCP, makes queue pairs, sends or receives, swaps results."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Coroutine
from typing import Any, TypeVar

from agents.nic.standalone import StandaloneNic
from agents.peer.conversation import ANSWER_S, Conversation
from agents.peer.traffic import PeerTraffic
from emulator.errors import InputError, RunError
from emulator.peer.exchange import Agreement, conclude, confirm, introduce
from emulator.peer.parameters import PeerTest, TestVerb
from emulator.peer.records import QpRecord, Report
from emulator.peer.results import PeerResult
from emulator.roce.constants import FIRST_SOURCE_PORT
from emulator.roce.memory import Memory, MemoryRegion
from emulator.roce.messages import ConnectionSettings
from emulator.roce.options import RoceOptions
from emulator.roce.psn import Psn
from emulator.roce.qp_facts import QpFacts
from emulator.roce.queue_pair import QueuePair

T = TypeVar("T")

_FIRST_WINDOW_PACKETS = 64
"""What the least capable endpoint known takes without loss, of all queue pairs; windows grow from there."""
_LEAST_WINDOW_PACKETS = 4
_LARGEST_WINDOW_BYTES = 1 << 20
_BUFFER_ADDRESS = 0x10000
_LAST_ACK_S = 0.3


class PeerSession:
    """One test with one peer.

    Args:
        test: what to run.
        options: of the NIC; its path MTU is replaced by the one that both ends agree on.
        host: RDMA address of this end; None: the address of the TCP connection.
        peer_host: the only RDMA address that is sent to; None: the address of the TCP connection.
    """

    def __init__(
        self, test: PeerTest, options: RoceOptions, *, host: str | None = None, peer_host: str | None = None
    ) -> None:
        self._test, self._options, self._host, self._peer_host = test, options, host, peer_host

    async def run(self, conversation: Conversation) -> PeerResult:
        """Run the test over a connection.

        Raises:
            RunError: the peer is gone, or a queue pair failed.
            RemoteProtocolError: the peer sent something else than perftest does.
            HostError: the address or port 4791 of this host cannot be used.
        """
        host = self._host or conversation.host
        records = _records(self._test, host)
        agreement = await conversation.play(introduce(self._test, records))
        self._check(agreement, self._peer_host or conversation.peer_host)
        test = dataclasses.replace(self._test, path_mtu=agreement.path_mtu)
        options = dataclasses.replace(self._options, path_mtu=agreement.path_mtu)
        with StandaloneNic(host, options) as alone:
            traffic = PeerTraffic(test, agreement.peers, alone.passes, path_mtu=test.path_mtu)
            channels = []
            for index, (ours, theirs) in enumerate(zip(records, agreement.peers, strict=True)):
                facts = _facts(ours, theirs)
                pair = _queue_pair(options, ours, theirs, agreement.buffer_bytes, queue_pairs=test.queue_pairs)
                channels.append(alone.nic.create_foreign(facts, pair, traffic, index=index))
            traffic.attach(channels)
            await _while_alive(conversation.play(confirm(test, records)), traffic)
            report = await self._exchange(test, records, traffic, conversation)
            return PeerResult(
                test=test,
                role="client" if conversation.is_client else "server",
                host=host,
                peer_host=agreement.peers[0].host,
                peer_version=agreement.version,
                sent=traffic.sent(),
                received=traffic.received(),
                peer=report,
            )

    async def _exchange(
        self, test: PeerTest, records: list[QpRecord], traffic: PeerTraffic, conversation: Conversation
    ) -> Report | None:
        """Send and receive, then end the test."""
        await _while_alive(_traffic(test, traffic, is_client=conversation.is_client), traffic, conversation)
        ending = conversation.play(conclude(test, records, _report(test, traffic)), first_s=_patience_s(test))
        report = await _while_alive(ending, traffic)
        if conversation.is_client and not test.is_bidirectional:
            report = None  # a server that has sent nothing reports memory that it never set
        if test.verb is TestVerb.WRITE_LATENCY:  # this test ends without a word: its peer may still need our ACKs
            await conversation.until_closed()
        return report

    def _check(self, agreement: Agreement, allowed: str) -> None:
        for record in agreement.peers:
            if record.host != allowed:
                raise InputError(
                    f"the peer's queue pair is at {record.host}, not at {allowed}: nothing is sent there; "
                    f"if that is the NIC under test, give --peer-address {record.host}"
                )


async def _traffic(test: PeerTest, traffic: PeerTraffic, *, is_client: bool) -> None:
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
        raise RunError(f"{conversation.peer_host} went away in the middle of the test: its own output names the reason")
    finally:
        for one in (task, gone):
            if one is not None:
                one.cancel()


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


def _report(test: PeerTest, traffic: PeerTraffic) -> Report:
    sent = traffic.sent()
    seconds = sent.duration_ns / 1e9
    rate = sent.messages / seconds if seconds else 0.0
    average = rate * test.size_bytes / (1 << 20)  # MiB/s, the unit of perftest unless its user chooses another
    return Report(
        size_bytes=test.size_bytes, iterations=sent.messages, peak=0.0, average=average, messages_per_us=rate / 1e6
    )
