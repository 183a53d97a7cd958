"""A rank and one of its peers: maps transfers to queue pairs, and events of queue pairs to transfers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from agents.nic.channel import Channel, QueuePairOwner
from agents.transports.base import EndpointEvents, FlowCounters
from agents.transports.roce.counters import has_events, received, sent
from agents.transports.roce.transfers import Incoming, Outgoing
from emulator.roce.connection.messages import ConnectionSettings, Delivered, Message, Verb

ChannelMaker: TypeAlias = Callable[[QueuePairOwner, int], Channel]
"""Makes a queue pair, given its owner and index."""
_WRITE_IMM = Verb.WRITE_IMM


class RankLink(QueuePairOwner):
    """A rank and one of its peers.

    Args:
        rank, peer: both ends.
        rkey: memory key of the peer.
        qps: queue pairs that carry payload; an additional one carries control.
        settings: of every queue pair.
        message_bytes: maximum payload per message.
        make_channel: makes queue pairs on first use.
        events: of the rank.
        fail: called once, with the reason, when the connection fails.
    """

    def __init__(
        self,
        rank: int,
        peer: int,
        *,
        rkey: int,
        qps: int,
        settings: ConnectionSettings,
        message_bytes: int,
        make_channel: ChannelMaker,
        events: EndpointEvents,
        fail: Callable[[str], None],
    ) -> None:
        self.rank, self.peer, self._rkey = rank, peer, rkey
        self._events, self._make_channel, self._fail = events, make_channel, fail
        self.is_dirty = self.is_broken = False
        self._channels: list[Channel | None] = [None] * (qps + 1)
        room_bytes = settings.window_packets * settings.path_mtu + message_bytes
        self._outgoing = Outgoing(qps=qps, message_bytes=message_bytes, room_bytes=room_bytes, rkey=rkey)
        self._incoming = Incoming(qps=qps)
        self._largest_single = settings.path_mtu if qps == 1 else 0

    def post(self, tag: int, size: int, ready: list[Channel]) -> bool:
        """Queue a transfer; returns whether a call of `send` must follow.

        None must follow for a transfer of one packet with an empty queue: its channel is added to `ready`.
        """
        index = 1 if size else 0
        if size and (size > self._largest_single or not self._outgoing.passes(size)):
            self._outgoing.post(tag, size)
            return True
        channel = self._channels[index] or self.channel(index)
        return not channel.post_single(Message(_WRITE_IMM, size, tag, index, self._rkey), ready, time.monotonic_ns())

    def send_control(self, now: int) -> None:
        """Send what is queued of control: peers wait for it."""
        channel = self._channels[0]
        if channel is not None and channel.pair.requester.backlog:
            channel.send(now)

    def send(self, now: int) -> None:
        """Send what the windows allow."""
        channel = self._channels[1]
        if channel is not None and channel.pair.requester.backlog:
            channel.send(now)
        used: dict[Channel, None] = {}
        for qp, message in self._outgoing.deal():
            channel = self.channel(qp + 1)
            channel.post(message)
            used[channel] = None
        for channel in used:
            channel.send(now)

    def channel(self, index: int) -> Channel:
        """The queue pair with an index, made on first use."""
        channel = self._channels[index]
        if channel is None:
            channel = self._channels[index] = self._make_channel(self, index)
        return channel

    @property
    def channels(self) -> Sequence[Channel]:
        """The queue pairs made so far."""
        return [channel for channel in self._channels if channel is not None]

    @property
    def acknowledged_bytes(self) -> int:
        """Payload that the peer has acknowledged."""
        return sum(channel.acknowledged_bytes for channel in self.channels)

    @property
    def drops(self) -> Counter[str]:
        """Dropped packets by reason."""
        return sum((channel.pair.drops for channel in self.channels), Counter())

    def counters(self) -> Iterator[FlowCounters]:
        """Rows for every queue pair: what it has sent, if anything, and what it has received."""
        yield from (sent(channel, self.rank, self.peer) for channel in self.channels if channel.posted_messages)
        yield from (received(channel, self.rank, self.peer) for channel in self.channels)

    def eventful(self) -> Iterator[FlowCounters]:
        """The rows of `counters` of queue pairs with events."""
        for channel in self._channels:
            if channel is not None and has_events(channel):
                yield from (sent(channel, self.rank, self.peer), received(channel, self.rank, self.peer))

    def close(self) -> None:
        """Stop sending and delivering."""
        self.is_broken = True
        for channel in self.channels:
            channel.close()

    # Events of queue pairs.

    def delivered(self, index: int, delivered: Delivered, now: int) -> None:
        """See Owner."""
        if self.is_broken:
            return
        if index == 0 or (delivered.imm == 1 and self._incoming.is_direct):
            self._events.arrived(self.peer, delivered.address, delivered.size, now, delivered.messages)
            return
        for _ in range(delivered.messages):
            for tag, size in self._incoming.received(index - 1, delivered):
                if not self.is_broken:
                    self._events.arrived(self.peer, tag, size, now)
        if not self._incoming.is_consistent:
            self.broke("the peer sends messages that are not transfers: is it a different version?")

    def completed(self, index: int, messages: Sequence[Message], now: int) -> None:
        """See Owner."""
        if index == 0:
            tags: Sequence[int] = [message.address for message in messages]
        else:
            tags = self._outgoing.acknowledged(index - 1, messages)
            if self._outgoing.has_more:
                self.send(now)
        acknowledged = self._events.acknowledged
        for tag in tags:
            if not self.is_broken:
                acknowledged(self.peer, tag, now)

    def broke(self, reason: str) -> None:
        """See Owner."""
        if not self.is_broken:
            self.close()
            self._fail(reason)
