"""The messages of one end of a perftest: posts them, counts what completes and what arrives."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import Counter
from collections.abc import Callable, Sequence

from agents.annexes.peer.exchange import QpRecord
from agents.nic.channel import Channel
from agents.nic.passes import Passes
from emulator.errors import RunError
from emulator.flows.perftest_parameters import PeerTest, TestVerb
from emulator.flows.perftest_results import Received, Sent
from emulator.roce.connection.messages import Delivered, Message, Verb
from emulator.roce.wire.opcodes import PacketOperation
from emulator.roce.wire.packet import Packet

TX_DEPTH = 128
"""Messages posted at once on a queue pair: the default of perftest."""
WITHOUT_END = 1 << 62

_VERBS = {"write": Verb.WRITE, "send": Verb.SEND, "read": Verb.READ}
_OPERATIONS = {"write": PacketOperation.WRITE, "send": PacketOperation.SEND, "read": PacketOperation.READ_REQUEST}


class PeerTraffic:
    """The traffic of all queue pairs of one end; it owns them (see agents.nic.channel.Owner).

    Args:
        test: what to run.
        peers: the queue pairs of the peer, in the order of `channels`.
        passes: of the NIC.
        path_mtu: as both ends have agreed, bytes.

    Attributes:
        failure: raises RunError once a queue pair fails.
    """

    def __init__(self, test: PeerTest, peers: Sequence[QpRecord], passes: Passes, *, path_mtu: int) -> None:
        loop = asyncio.get_running_loop()
        self.failure: asyncio.Future[None] = loop.create_future()
        self._loop, self._test, self._peers, self._passes = loop, test, peers, passes
        self._verb, self._host = _VERBS[test.verb.operation], peers[0].host
        self._last_packet_bytes = test.size_bytes - (test.size_bytes - 1) // path_mtu * path_mtu
        self._channels: list[Channel] = []
        self._changed = asyncio.Event()
        self._left = [0] * len(peers)  # messages to post, by queue pair
        self._under_way = 0  # messages posted and not complete
        self._is_ping_pong, self._unanswered = False, 0
        self._is_told_to_end = False
        self._posted = self._posted_ns = 0  # of messages that go one by one
        self._begun_ns = self._completed_ns = self._completed = 0
        self._round_trips_ns = array("q")
        self._received_messages = self._received_bytes = 0
        self._first_bytes = self._first_ns = self._received_ns = 0

    def attach(self, channels: Sequence[Channel]) -> None:
        """Give it the queue pairs, before any traffic."""
        self._channels = list(channels)

    # What an end does.

    async def stream(self) -> None:
        """Send all messages: as fast as windows allow, or each when the one before is complete (latency of READs)."""
        self._begin()
        for index, channel in enumerate(self._channels):
            self._fill(index, 1 if self._test.verb.is_latency else TX_DEPTH)
            channel.send(time.monotonic_ns())
        self._passes.watch()
        await self._until(lambda: not self._under_way and not any(self._left))

    async def ping_pong(self, *, is_first: bool) -> None:
        """Send a message for every one that arrives; `is_first`: this end begins."""
        self._begin()
        self._is_ping_pong = True
        for _ in range(self._unanswered + is_first):
            self._post_one()
        expected = self._test.iterations  # 0: until time is up
        await self._until(lambda: not self._under_way and not any(self._left) and self._received_messages >= expected)

    async def receive(self) -> None:
        """Wait until the peer's messages have arrived."""
        expected = self._test.iterations * len(self._peers)
        await self._until(lambda: self._received_messages >= expected)

    # Results.

    def sent(self) -> Sent:
        """What this end has sent, or read."""
        requesters = [channel.pair.requester for channel in self._channels]
        return Sent(
            messages=self._completed,
            bytes=self._completed * self._test.size_bytes,
            start_ns=self._begun_ns,
            duration_ns=self._completed_ns - self._begun_ns if self._completed else 0,
            packets=sum(one.sent_packets for one in requesters),
            retransmits=sum(one.retransmits for one in requesters),
            timeouts=sum(one.timeouts for one in requesters),
            naks=sum(one.naks for one in requesters),
            rnr_naks=sum(one.rnr_naks for one in requesters),
            round_trips_ns=tuple(self._round_trips_ns),
        )

    def received(self) -> Received:
        """What this end has received, or has been asked for by READs."""
        responders = [channel.pair.responder for channel in self._channels]
        return Received(
            messages=self._received_messages + sum(one.reads for one in responders),
            bytes=self._received_bytes + sum(one.read_bytes for one in responders),
            bytes_after_first=self._received_bytes - self._first_bytes,
            start_ns=self._first_ns,
            duration_ns=self._received_ns - self._first_ns,
            duplicates=sum(one.duplicates for one in responders),
            naks=sum(one.naks for one in responders),
            dropped=dict(sum((channel.pair.drops for channel in self._channels), Counter())),
        )

    # Events of queue pairs.

    def delivered(self, index: int, delivered: Delivered, now: int) -> None:
        """See Owner."""
        self._check(delivered.operation, delivered.size)
        size = delivered.size * delivered.messages
        if not self._received_messages:
            self._first_ns, self._first_bytes = now, size
        self._received_messages += delivered.messages
        self._received_bytes += size
        self._received_ns = now
        if not self._is_ping_pong:
            self._unanswered += delivered.messages  # the peer may begin before this end does
        else:
            for _ in range(delivered.messages):
                if self._posted:
                    self._round_trips_ns.append(now - self._posted_ns)
                self._post_one()
        self._changed.set()

    def completed(self, index: int, messages: Sequence[Message], now: int) -> None:
        """See Owner."""
        self._completed += len(messages)
        self._under_way -= len(messages)
        self._completed_ns = now
        if not self._is_ping_pong:
            if self._test.verb.is_latency:
                self._round_trips_ns.append(now - self._posted_ns)
            self._fill(index, len(messages))
        if not self._under_way:
            self._changed.set()

    def broke(self, reason: str) -> None:
        """See Owner."""
        for channel in self._channels:
            channel.close()
        self._fail(f"the connection to {self._host} failed: {reason}; does it run {self._test.command()}?")

    def refused(self, packet: Packet) -> None:
        """A packet of another transport service came."""
        service = packet.meaning.service.name
        self._fail(
            f"{self._host} sends over {service}; only reliable connections (RC) are supported: change its options"
        )

    def _fail(self, problem: str) -> None:
        if not self.failure.done():
            self.failure.set_exception(RunError(problem))

    # What the exchange does not say, but messages show: whether both ends run the same test.

    def check_reads(self) -> None:
        """Check the READs of the peer, which nothing else tells of.

        Raises:
            RunError: they are not those of this test.
        """
        responders = [channel.pair.responder for channel in self._channels]
        reads, read_bytes = sum(one.reads for one in responders), sum(one.read_bytes for one in responders)
        if reads:
            self._check(PacketOperation.READ_REQUEST, -(-read_bytes // reads))
        if self.failure.done():
            self.failure.result()

    def _check(self, operation: PacketOperation, size: int) -> None:
        test = self._test
        if operation is not _OPERATIONS[test.verb.operation]:
            verb = operation.value.partition(" ")[0].upper()
            self._fail(
                f"{self._host} does not run {test.verb.tool}, but a test with {verb}s: give both ends the same test"
            )
        elif size != test.size_bytes:
            self._fail(
                f"messages of {self._host} have {size:,} bytes, --size is {test.size_bytes} here: give both ends the "
                "same size"
            )

    # Posting.

    def _begin(self) -> None:
        self._begun_ns = time.monotonic_ns()
        self._left = [self._test.iterations or WITHOUT_END] * len(self._channels)
        if self._is_told_to_end:
            self.end()
        elif self._test.duration_s:
            self._loop.call_later(self._test.duration_s, self.end)

    def end(self) -> None:
        """Post no more: what has been posted is still to complete."""
        self._is_told_to_end = True
        self._left = [0] * len(self._left)
        self._changed.set()

    def _fill(self, index: int, most: int) -> None:
        """Post at most `most` messages; the caller sends."""
        count = min(most, self._left[index])
        self._left[index] -= count
        self._under_way += count
        self._posted_ns = time.monotonic_ns()
        channel, peer, size = self._channels[index], self._peers[index], self._test.size_bytes
        for _ in range(count):
            channel.post(Message(self._verb, size, peer.address, rkey=peer.rkey))

    def _post_one(self) -> None:
        """Send the next message of a ping-pong."""
        if not self._left[0]:
            return
        self._left[0] -= 1
        self._under_way += 1
        self._posted += 1
        content = b""
        if self._test.verb is TestVerb.WRITE_LATENCY:  # the peer waits for a counter in the last byte of its buffer
            content = bytes(self._last_packet_bytes - 1) + bytes([self._posted & 0xFF])
        peer, channel = self._peers[0], self._channels[0]
        self._posted_ns = now = time.monotonic_ns()
        channel.post(Message(self._verb, self._test.size_bytes, peer.address, rkey=peer.rkey, content=content))
        channel.send(now)
        self._passes.watch()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()
