"""A rank and one of its peers: maps transfers to queue pairs, and events of queue pairs to transfers.

Transfers of a rank pair are cut into messages, sent over several queue pairs in turn, and put back in order. Message m
of the pair goes to queue pair m mod N, so the receiver knows the order across all of them. A transfer is RDMA WRITEs
whose last carries immediate data: the RETH's virtual address is the 64-bit tag, the immediate data the number of its
messages (modulo 2^32), which the receiver checks. Control, a transfer of 0 bytes, is a WRITE without payload on a queue
pair of its own.

Counters of both ends of a queue pair are rows that the controller joins.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from agents.nic.channel import Channel, QueuePairOwner
from agents.transports.base import EndpointEvents
from emulator.control.observations import FlowCounters
from emulator.roce.connection.messages import ConnectionSettings, Delivered, FirstSent, Message, Verb
from emulator.roce.connection.qp_facts import QpFacts
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.constants import PATH_MTUS
from emulator.roce.multipath.responder import MultipathResponder
from emulator.roce.tuning import LEAST_SHARE_BYTES, SMALLEST_CHARGE_BYTES

_LARGEST_PATH_MTU: Final = PATH_MTUS[-1]
_WRITE_IMM: Final = Verb.WRITE_IMM


@dataclass(slots=True, eq=False, kw_only=True)
class Outgoing:
    """The sending side of a rank pair.

    Attributes:
        qps: queue pairs that carry payload.
        message_bytes: maximum payload per message.
        room_bytes: unacknowledged payload that a queue pair may hold, enough to keep it busy.
        rkey: memory key of the peer.
    """

    qps: int
    message_bytes: int
    room_bytes: int
    rkey: int = 0
    _transfers: deque[tuple[int, int, FirstSent | None]] = field(default_factory=deque)  # tag, size, who asks
    _left: int = 0  # bytes of the first transfer that are not yet in messages
    _dealt: int = 0  # messages so far
    _done: list[int] = field(init=False)  # messages acknowledged, per queue pair
    _queued: list[int] = field(init=False)  # bytes in the queue pair, not acknowledged
    _unacknowledged: deque[tuple[int, int]] = field(default_factory=deque)  # number of the last message, tag

    def __post_init__(self) -> None:
        self._done, self._queued = [0] * self.qps, [0] * self.qps

    @property
    def has_more(self) -> bool:
        """Whether posted bytes are not yet in messages."""
        return bool(self._transfers)

    def post(self, tag: int, size: int, sent: FirstSent | None = None) -> None:
        """Queue a transfer of at least one byte; `sent` learns when it begins to leave."""
        if not self._transfers:
            self._left = size
        self._transfers.append((tag, size, sent))

    def passes(self, size: int) -> bool:
        """Whether a transfer of one message may bypass the queue, which is empty; if so, accounts for it."""
        if self._transfers:
            return False
        self._queued[0] += size if size > SMALLEST_CHARGE_BYTES else SMALLEST_CHARGE_BYTES
        return True

    def deal(self) -> Iterator[tuple[int, Message]]:
        """The next messages that queue pairs have room for, as (queue pair, message)."""
        while self._transfers:
            qp = self._dealt % self.qps
            if self._queued[qp] >= self.room_bytes:
                return
            message = self._cut()
            self._queued[qp] += max(message.size, SMALLEST_CHARGE_BYTES)
            yield qp, message

    def _cut(self) -> Message:
        tag, size, sent = self._transfers[0]
        most = self._message_size(size)
        piece = min(self._left, most)
        if self._left < size:
            sent = None  # the first message has asked
        self._left -= piece
        self._dealt += 1
        if self._left:
            return Message(Verb.WRITE, piece, address=tag, rkey=self.rkey, sent=sent)
        self._transfers.popleft()
        self._left = self._transfers[0][1] if self._transfers else 0
        if self.qps > 1:
            self._unacknowledged.append((self._dealt - 1, tag))
        imm = -(-size // most) & 0xFFFFFFFF
        return Message(Verb.WRITE_IMM, piece, address=tag, imm=imm, rkey=self.rkey, sent=sent)

    def _message_size(self, transfer_bytes: int) -> int:
        if self.qps == 1:
            return self.message_bytes
        share = -(-transfer_bytes // self.qps)
        return min(self.message_bytes, max(LEAST_SHARE_BYTES, share + -share % _LARGEST_PATH_MTU))

    def acknowledged(self, qp: int, messages: Sequence[Message]) -> Sequence[int]:
        """Account for acknowledged messages of a queue pair; returns the tags of completed transfers, in order."""
        tags = []
        room = 0
        for message in messages:
            size = message.size
            room += size if size > SMALLEST_CHARGE_BYTES else SMALLEST_CHARGE_BYTES
            if message.verb is _WRITE_IMM:
                tags.append(message.address)
        self._queued[qp] -= room
        if self.qps == 1:
            return tags
        self._done[qp] += len(messages)
        reached = min(done * self.qps + index for index, done in enumerate(self._done))
        tags = []
        waiting = self._unacknowledged
        while waiting and waiting[0][0] < reached:
            tags.append(waiting.popleft()[1])
        return tags


@dataclass(slots=True, eq=False, kw_only=True)
class Incoming:
    """The receiving side of a rank pair.

    Attributes:
        is_direct: whether a transfer of one message that arrives now is the next one to deliver.
        is_consistent: False once a message does not fit a transfer.
    """

    qps: int
    is_direct: bool = field(init=False)
    is_consistent: bool = True
    _waiting: Sequence[deque[Delivered]] = field(init=False)
    _next: int = 0
    _messages: int = 0
    _size: int = 0

    def __post_init__(self) -> None:
        self._waiting, self.is_direct = [deque() for _ in range(self.qps)], self.qps == 1

    def received(self, qp: int, delivered: Delivered) -> Iterator[tuple[int, int]]:
        """Account for a received message; yields the transfers that it completes in order, as (tag, size)."""
        self._waiting[qp].append(delivered)
        while self._waiting[self._next]:
            message = self._waiting[self._next].popleft()
            self._next = (self._next + 1) % self.qps
            self._size += message.size
            self._messages += 1
            self.is_direct = False
            if message.imm is not None:
                self.is_consistent &= message.imm == self._messages & 0xFFFFFFFF
                size, self._size, self._messages = self._size, 0, 0
                self.is_direct = self.qps == 1
                yield message.address, size


class LinkChannel(Protocol):
    """What a link needs of its queue pairs, see Channel."""

    facts: QpFacts
    pair: QueuePair
    posted_bytes: int
    posted_messages: int

    @property
    def source_port(self) -> int | None:
        """See Channel."""
        ...

    @property
    def acknowledged_bytes(self) -> int:
        """See Channel."""
        ...

    def post(self, message: Message) -> None:
        """See Channel."""
        ...

    def post_single(self, message: Message, ready: list[Channel], now: int) -> bool:
        """See Channel."""
        ...

    def send(self, now: int) -> None:
        """See Channel."""
        ...

    def close(self) -> None:
        """See Channel."""
        ...


HEADER_DROPS: Final = ("header", "length", "opcode", "refused", "rkey")


def sent(channel: LinkChannel, rank: int, peer: int) -> FlowCounters:
    """The counters of the flow from `rank`, this end, to `peer`."""
    pair = channel.pair
    requester = pair.requester
    return FlowCounters(
        src=rank,
        dst=peer,
        bytes=channel.posted_bytes,
        messages=channel.posted_messages,
        packets=requester.sent_packets,
        retransmits=requester.retransmits,
        naks=requester.naks,
        cnps_received=pair.cnps_received,
        rtt_ns=requester.rtt_ns,
        qpn=channel.facts.peer_qpn,
        source_port=channel.source_port,
        timeouts=requester.timeouts,
        rnr_naks=requester.rnr_naks,
    )


def has_events(channel: LinkChannel) -> bool:
    """Whether anything but clean traffic was counted at this end; far cheaper than its rows."""
    pair = channel.pair
    requester, responder = pair.requester, pair.responder
    return bool(
        requester.retransmits
        or requester.naks
        or requester.timeouts
        or requester.rnr_naks
        or responder.early_packets
        or responder.duplicates
        or responder.copies
        or pair.ecn_marks
        or pair.cnps_sent
        or pair.cnps_received
        or pair.drops
    )


def received(channel: LinkChannel, rank: int, peer: int) -> FlowCounters:
    """The counters of the flow from `peer` to `rank`, this end."""
    pair, drops = channel.pair, channel.pair.drops
    responder = pair.responder
    return FlowCounters(
        src=peer,
        dst=rank,
        cnps_sent=pair.cnps_sent,
        ecn_marks=pair.ecn_marks,
        out_of_order=responder.early_packets,
        qpn=channel.facts.qpn,
        duplicates=responder.duplicates,
        copies=None if isinstance(responder, MultipathResponder) else responder.copies,
        largest_displacement=responder.largest_displacement,
        dropped_header=sum(drops[reason] for reason in HEADER_DROPS),
        dropped_icrc=drops["icrc"],
        dropped_payload=drops["payload"],
    )


ChannelMaker: TypeAlias = Callable[[QueuePairOwner, int], LinkChannel]
"""Makes a queue pair, given its owner and index."""


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
        self._channels: list[LinkChannel | None] = [None] * (qps + 1)
        room_bytes = settings.window_packets * settings.path_mtu + message_bytes
        self._outgoing = Outgoing(qps=qps, message_bytes=message_bytes, room_bytes=room_bytes, rkey=rkey)
        self._incoming = Incoming(qps=qps)
        self._largest_single = settings.path_mtu if qps == 1 else 0

    def post(self, tag: int, size: int, ready: list[Channel], sent: FirstSent | None = None) -> bool:
        """Queue a transfer; returns whether a call of `send` must follow.

        None must follow for a transfer of one packet with an empty queue: its channel is added to `ready`.
        """
        index = 1 if size else 0
        if size and (size > self._largest_single or not self._outgoing.passes(size)):
            self._outgoing.post(tag, size, sent)
            return True
        channel = self._channels[index] or self.channel(index)
        message = Message(_WRITE_IMM, size, tag, index, self._rkey, sent=sent)
        return not channel.post_single(message, ready, time.monotonic_ns())

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
        used: dict[LinkChannel, None] = {}
        for qp, message in self._outgoing.deal():
            channel = self.channel(qp + 1)
            channel.post(message)
            used[channel] = None
        for channel in used:
            channel.send(now)

    def channel(self, index: int) -> LinkChannel:
        """The queue pair with an index, made on first use."""
        channel = self._channels[index]
        if channel is None:
            channel = self._channels[index] = self._make_channel(self, index)
        return channel

    @property
    def channels(self) -> Sequence[LinkChannel]:
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
