"""A rank and one of its peers: transfers on one side, queue pairs on the other."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agents.transports.base import FlowCounters
from agents.transports.roce.channel import Channel
from agents.transports.roce.counters import received, sent
from agents.transports.roce.ends import Ends, first_psn
from agents.transports.roce.transfers import Incoming, Outgoing
from emulator.roce.messages import Delivered, Message, Verb
from emulator.roce.opcodes import Operation
from emulator.roce.queue_pair import QueuePair

if TYPE_CHECKING:
    from agents.transports.roce.endpoint import RoceEndpoint
    from agents.transports.roce.transport import RoceTransport

MOST_WINDOW_BYTES = 8 << 20
LEAST_WINDOW_BYTES = 512 << 10
_WRITE_IMM = Verb.WRITE_IMM


class Link:
    """A rank and one of its peers: transfers on one side, queue pairs on the other. Implements Owner."""

    def __init__(self, endpoint: RoceEndpoint, transport: RoceTransport, peer: int, host: str) -> None:
        options = transport.options
        self.peer, self._host = peer, host
        self.is_dirty = self.is_broken = False
        self._endpoint, self._transport = endpoint, transport
        self._channels: list[Channel | None] = [None] * (options.qps + 1)
        self._settings = options.connection(
            window_packets=endpoint.window_bytes // options.path_mtu,
            smallest_run=transport.shared.payload.per_call,
        )
        self._outgoing = Outgoing(
            qps=options.qps,
            message_bytes=transport.message_bytes,
            room_bytes=self._settings.window_packets * options.path_mtu + transport.message_bytes,
        )
        self._incoming = Incoming(qps=options.qps)
        self._largest_single = options.path_mtu if options.qps == 1 else 0

    def post(self, tag: int, size: int, holding: list[Channel]) -> bool:
        """Have a transfer ready to go where it is one packet and nothing is before it, else queue it: whether it waits.

        Args:
            holding: see Channel.
        """
        index = 1 if size else 0
        if size and (size > self._largest_single or not self._outgoing.passes(size)):
            self._outgoing.post(tag, size)
            return True
        channel = self._channels[index] or self.channel(index)
        return not channel.hold(Message(_WRITE_IMM, size, tag, index), holding, time.monotonic_ns())

    def send(self, now: int) -> None:
        """Send what may go; control first."""
        for channel in self._channels[:2]:
            if channel is not None and channel.pair.requester.backlog:
                channel.send(now)
        used = set()
        for index, message in self._outgoing.deal():
            self._queue(index + 1, message)
            used.add(index + 1)
        for index in used:
            if not self.is_broken:
                self.channel(index).send(now)

    def channel(self, index: int) -> Channel:
        """The queue pair of that index."""
        channel = self._channels[index]
        if channel is None:
            channel = self._channels[index] = self._make_channel(index)
            self._endpoint.attach(channel)
        return channel

    @property
    def acknowledged_bytes(self) -> int:
        """Payload that the peer has acknowledged."""
        return sum(channel.acknowledged_bytes for channel in self._channels if channel is not None)

    def counters(self) -> Iterator[FlowCounters]:
        """Per queue pair, what this end has sent, where it has, and what has come to it."""
        channels = [channel for channel in self._channels if channel is not None]
        yield from (sent(channel) for channel in channels if channel.posted_messages)
        yield from map(received, channels)

    def close(self) -> None:
        """Send nothing more, hear nothing more."""
        self.is_broken = True
        for channel in self._channels:
            if channel is not None:
                channel.close()

    # What channels tell.

    def delivered(self, index: int, delivered: Delivered, now: int) -> None:
        """See Owner."""
        if self.is_broken:
            return
        if index == 0:
            self._endpoint.events.arrived(self.peer, delivered.address, delivered.size, now)
            return
        for tag, size in self._incoming.received(index - 1, delivered):
            if not self.is_broken:
                self._endpoint.events.arrived(self.peer, tag, size, now)
        if not self._incoming.is_consistent:
            self.broke("the peer sends messages that are no transfers: is it of another version?")

    def arrived(self, index: int, tag: int, size: int, imm: int, now: int, count: int = 1) -> None:
        """See Owner."""
        if index == 0 or (imm == 1 and self._incoming.is_direct):
            if not self.is_broken:
                self._endpoint.events.arrived(self.peer, tag, size, now, count)
        else:
            for _ in range(count):
                self.delivered(index, Delivered(Operation.WRITE, tag, size, imm), now)

    def completed(self, index: int, messages: Sequence[Message], now: int) -> None:
        """See Owner."""
        if index == 0:
            tags: Sequence[int] = [message.address for message in messages]
        else:
            tags = self._outgoing.acknowledged(index - 1, messages)
            if self._outgoing.has_more:
                self.send(now)
        acknowledged = self._endpoint.events.acknowledged
        for tag in tags:
            if not self.is_broken:
                acknowledged(self.peer, tag, now)

    def broke(self, reason: str) -> None:
        """See Owner."""
        if not self.is_broken:
            self.close()
            self._endpoint.fail(self.peer, reason)

    def _queue(self, index: int, message: Message) -> None:
        self.channel(index).post(message)

    def _make_channel(self, index: int) -> Channel:
        transport, rank = self._transport, self._endpoint.rank
        options, seed = transport.options, transport.shared.seed
        ends = Ends(rank, self._endpoint.address.host, self.peer, self._host, index, options.qps)
        return Channel(
            transport.shared,
            self,
            ends,
            settings=self._settings,
            port=self._endpoint.port,
            neighbour=transport.endpoint(self.peer),
            make=lambda: QueuePair(
                self._settings,
                send_psn=first_psn(rank, self.peer, index=index, seed=seed),
                expect_psn=first_psn(self.peer, rank, index=index, seed=seed),
                congestion=self._endpoint.make_congestion(),
                cnp_gap_ns=self._endpoint.cnp_gap_ns,
                lead_ns=self._endpoint.port.lead_ns if self._endpoint.port is not None else 0,
            ),
        )


def window_bytes(buffer_bytes: int, *, peers: int) -> int:
    """How much payload a queue pair may have on its way: so much that all peers' fits the buffer of a receiving socket.

    Where peers are many it is more than that, lest each has little: then some is lost if all send to one at once.
    """
    fair = min(MOST_WINDOW_BYTES, max(LEAST_WINDOW_BYTES, buffer_bytes // max(1, peers)))
    return min(fair, buffer_bytes // 2)
