"""A rank and one of its peers: queue pairs of transfers, and events for the rank."""

from collections import Counter
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from agents.transports.roce.endpoint import ConnectionId, qp_facts
from agents.transports.roce.link import HEADER_DROPS, Incoming, Outgoing, RankLink, has_events, received, sent
from emulator.roce.connection.messages import Arrival, ConnectionSettings, Delivered, Message, Verb
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.wire.headers import Syndrome
from emulator.roce.wire.opcodes import Opcode, PacketOperation
from emulator.roce.wire.psn import Psn


def delivered(message: Message) -> Delivered:
    return Delivered(
        PacketOperation.WRITE, message.address, message.size, message.imm if message.verb.value[1] else None
    )


@pytest.mark.parametrize("qps", [1, 2, 5])
@pytest.mark.parametrize("seed", range(5))
def test_transfers_are_in_order_whatever_the_order_of_queue_pairs(qps: int, seed: int) -> None:
    random = Random(seed)
    outgoing, incoming = Outgoing(qps=qps, message_bytes=10, room_bytes=1000), Incoming(qps=qps)
    transfers = [(tag, random.randrange(1, 80)) for tag in range(60)]
    for tag, size in transfers:
        outgoing.post(tag, size)
    queues: list[list[Message]] = [[] for _ in range(qps)]
    arrived: list[tuple[int, int]] = []
    acknowledged: list[int] = []
    while len(acknowledged) < 60:
        for qp, message in outgoing.deal():
            assert message.size <= 10
            queues[qp].append(message)
        qp = random.choice([qp for qp in range(qps) if queues[qp]])
        taken = [queues[qp].pop(0) for _ in range(random.randint(1, len(queues[qp])))]
        for message in taken:
            arrived += incoming.received(qp, delivered(message))
        acknowledged += outgoing.acknowledged(qp, taken)
        assert len(acknowledged) <= len(arrived)
    assert arrived == transfers
    assert acknowledged == list(range(60))
    assert incoming.is_consistent
    assert not outgoing.has_more


def test_few_messages_are_made_ahead_of_acknowledgements() -> None:
    outgoing = Outgoing(qps=1, message_bytes=1000, room_bytes=3000)
    outgoing.post(1, 10**12)
    first = [message for _, message in outgoing.deal()]
    assert len(first) == 3
    outgoing.acknowledged(0, first[:1])
    assert len(list(outgoing.deal())) == 1


def test_small_messages_count_for_more_than_their_bytes() -> None:
    outgoing = Outgoing(qps=1, message_bytes=1000, room_bytes=1024)
    for tag in range(100):
        outgoing.post(tag, 1)
    assert len(list(outgoing.deal())) == 4


def test_a_missing_message_is_noticed() -> None:
    incoming = Incoming(qps=1)
    last = Message(Verb.WRITE_IMM, 5, address=1, imm=2)
    assert list(incoming.received(0, delivered(last))) == [(1, 5)]
    assert not incoming.is_consistent


def test_a_transfer_of_one_message_is_direct_only_between_transfers() -> None:
    incoming = Incoming(qps=1)
    assert incoming.is_direct
    assert list(incoming.received(0, delivered(Message(Verb.WRITE, 10, address=1)))) == []
    assert not incoming.is_direct
    assert list(incoming.received(0, delivered(Message(Verb.WRITE_IMM, 5, address=1, imm=2)))) == [(1, 15)]
    assert incoming.is_direct
    assert not Incoming(qps=2).is_direct


def test_transfers_that_bypass_the_queue_count_until_they_are_acknowledged() -> None:
    outgoing = Outgoing(qps=1, message_bytes=1000, room_bytes=1024)
    single = Message(Verb.WRITE_IMM, 1000, address=7, imm=1)
    for _ in range(2):
        assert outgoing.passes(1000)
    outgoing.post(8, 10)
    assert not outgoing.passes(1000)
    assert list(outgoing.deal()) == []
    assert outgoing.acknowledged(0, [single]) == [7]
    assert [message.address for _, message in outgoing.deal()] == [8]


@pytest.mark.parametrize(
    ("qps", "size", "sizes"),
    [
        (1, 6 << 20, [4 << 20, 2 << 20]),
        (4, 6 << 20, [1536 << 10] * 4),  # every queue pair has a part
        (4, 2 << 20, [1 << 20] * 2),  # but no small ones
        (4, 64 << 20, [4 << 20] * 16),
        (3, 5_000_000, [1_667_072, 1_667_072, 1_665_856]),  # whole packets but for the last
    ],
)
def test_a_transfer_gives_every_queue_pair_a_message_of_a_mebibyte_or_more(
    qps: int, size: int, sizes: list[int]
) -> None:
    outgoing = Outgoing(qps=qps, message_bytes=4 << 20, room_bytes=1 << 30)
    outgoing.post(1, size)
    messages = [message for _, message in outgoing.deal()]
    assert [message.size for message in messages] == sizes
    assert messages[-1].imm == len(sizes)


FACTS = qp_facts(
    ConnectionId(rank=1, host="192.0.2.2", peer=4, peer_host="192.0.2.5", index=1, qps=1),
    port_policy="fold",
    seed=0,
    rkey=0,
)


def channel(pair: QueuePair) -> Any:
    return SimpleNamespace(pair=pair, facts=FACTS, posted_bytes=5000, posted_messages=2, source_port=50_001)


def test_the_sending_end_counts_packets_sent_and_responses() -> None:
    pair = QueuePair(ConnectionSettings(path_mtu=1024))
    for size in (4000, 1000):
        pair.requester.post(Message(Verb.WRITE, size))
    while pair.next_run(0, 10) is not None:
        pass
    pair.acknowledge(Psn(2), Syndrome.SEQUENCE_ERROR, 100)
    while pair.next_run(200, 10) is not None:
        pass
    pair.acknowledge(Psn(4), 0x1F, 300)
    pair.notified(400)
    row = sent(channel(pair), 1, 4)
    assert (row.src, row.dst, row.qpn, row.source_port) == (1, 4, FACTS.peer_qpn, 50_001)
    assert (row.bytes, row.messages, row.packets, row.retransmits) == (5000, 2, 8, 3)
    assert (row.naks, row.cnps_received, row.timeouts, row.rnr_naks) == (1, 1, 0, 0)
    assert row.rtt_ns is None or row.rtt_ns >= 0


def test_the_receiving_end_counts_packets_and_drops_by_reason() -> None:
    pair = QueuePair(ConnectionSettings(path_mtu=256))
    pair.responder.receive(Arrival(Opcode.RC_WRITE_FIRST, Psn(0), size=256, length=1 << 20))
    pair.responder.receive(Arrival(Opcode.RC_WRITE_FIRST, Psn(0), size=256, length=1 << 20))
    pair.responder.receive(Arrival(Opcode.RC_WRITE_MIDDLE, Psn(9), size=256))
    for number, reason in enumerate((*HEADER_DROPS, "icrc", "payload"), start=1):
        if reason != "refused":  # counted by requester and responder
            pair.drop(reason, number)
    pair.marked(7, 0)
    row = received(channel(pair), 1, 4)
    assert (row.src, row.dst, row.qpn) == (4, 1, FACTS.qpn)
    assert (row.copies, row.duplicates, row.out_of_order, row.largest_displacement) == (1, 0, 1, 8)
    assert (row.ecn_marks, row.cnps_sent) == (7, 1)
    counted = {reason: number for number, reason in enumerate(HEADER_DROPS, start=1) if reason != "refused"}
    assert row.dropped_header == sum(counted.values())
    assert (row.dropped_icrc, row.dropped_payload) == (len(HEADER_DROPS) + 1, len(HEADER_DROPS) + 2)


def test_only_a_queue_pair_on_which_something_happened_has_events() -> None:
    pair = QueuePair(ConnectionSettings(path_mtu=1024))
    pair.requester.post(Message(Verb.WRITE, 4000))
    while pair.next_run(0, 10) is not None:
        pass
    pair.responder.receive(Arrival(Opcode.RC_WRITE_FIRST, Psn(0), size=1024, length=1 << 20))
    assert not has_events(channel(pair))
    pair.acknowledge(Psn(2), Syndrome.SEQUENCE_ERROR, 100)
    assert has_events(channel(pair))


@pytest.mark.parametrize(
    "happens",
    [
        lambda pair: pair.responder.receive(Arrival(Opcode.RC_WRITE_MIDDLE, Psn(9), size=1024)),
        lambda pair: pair.notified(400),
        lambda pair: pair.marked(1, 0),
        lambda pair: pair.drop("icrc", 1),
    ],
    ids=["out of order", "CNP", "mark", "drop"],
)
def test_every_kind_of_event_is_seen_at_its_end(happens: Callable[[QueuePair], object]) -> None:
    pair = QueuePair(ConnectionSettings(path_mtu=1024))
    happens(pair)
    both = (sent(channel(pair), 1, 4), received(channel(pair), 1, 4))
    assert any(row.has_events for row in both)
    assert has_events(channel(pair))


SETTINGS = ConnectionSettings(path_mtu=1024, window_packets=16)
PEER = 7


class ChannelDouble:
    """A queue pair that records its messages; single packets leave at once unless it is busy."""

    def __init__(self, index: int) -> None:
        self.index, self.pair = index, QueuePair(SETTINGS)
        self.posted: list[Message] = []
        self.singles: list[Message] = []
        self.sends = 0
        self.is_busy = self.is_closed = False
        self.acknowledged_bytes = 0

    def post(self, message: Message) -> None:
        self.posted.append(message)
        self.pair.requester.post(message)

    def post_single(self, message: Message, ready: list[Any], now: int) -> bool:
        if self.is_busy:
            self.post(message)
            return False
        self.singles.append(message)
        ready.append(self)
        return True

    def send(self, now: int) -> None:
        self.sends += 1
        while self.pair.next_run(now, 1 << 20) is not None:
            pass

    def close(self) -> None:
        self.is_closed = True


class Rank:
    """The events of a rank, and a link whose queue pairs are doubles."""

    def __init__(self, *, qps: int = 1, message_bytes: int = 4096) -> None:
        self.arrivals: list[tuple[int, int, int, int]] = []
        self.acknowledgements: list[tuple[int, int]] = []
        self.reasons: list[str] = []
        self.channels: dict[int, ChannelDouble] = {}
        self.ready: list[Any] = []
        self.link = RankLink(
            1,
            PEER,
            rkey=5,
            qps=qps,
            settings=SETTINGS,
            message_bytes=message_bytes,
            make_channel=self._make,
            events=self,  # type: ignore[arg-type]
            fail=self.reasons.append,
        )

    def _make(self, owner: Any, index: int) -> Any:
        assert owner is self.link
        assert index not in self.channels
        return self.channels.setdefault(index, ChannelDouble(index))

    def arrived(self, peer: int, tag: int, size: int, now: int, count: int = 1) -> None:
        assert peer == PEER
        self.arrivals.append((tag, size, now, count))

    def acknowledged(self, peer: int, tag: int, now: int) -> None:
        assert peer == PEER
        self.acknowledgements.append((tag, now))

    def post(self, tag: int, size: int) -> bool:
        return self.link.post(tag, size, self.ready)

    def acknowledge(self, index: int, count: int, now: int) -> None:
        """The peer acknowledges the oldest messages of a queue pair."""
        channel = self.channels[index]
        done, channel.posted = channel.posted[:count], channel.posted[count:]
        self.link.completed(index, done, now)


def link_delivered(tag: int, size: int, imm: int | None = 1, messages: int = 1) -> Delivered:
    return Delivered(PacketOperation.WRITE, tag, size, imm, messages)


def test_control_has_its_own_queue_pair_and_leaves_at_once() -> None:
    rank = Rank()
    assert not rank.post(tag=5, size=0)
    assert [(message.size, message.address, message.imm) for message in rank.channels[0].singles] == [(0, 5, 0)]
    assert set(rank.channels) == {0}


def test_a_transfer_of_one_packet_leaves_at_once_and_a_larger_one_when_the_batch_ends() -> None:
    rank = Rank()
    assert not rank.post(tag=1, size=1024)
    assert rank.post(tag=2, size=1025)
    assert [message.address for message in rank.channels[1].singles] == [1]
    assert rank.channels[1].posted == []
    rank.link.send(now=0)
    assert [(message.address, message.size) for message in rank.channels[1].posted] == [(2, 1025)]
    assert rank.channels[1].sends == 1


def test_a_small_transfer_never_overtakes_a_large_one_before_it() -> None:
    rank = Rank()
    assert rank.post(tag=1, size=5000)
    assert rank.post(tag=2, size=10)
    rank.link.send(now=0)
    assert rank.channels[1].singles == []
    assert [(message.address, message.size, message.verb) for message in rank.channels[1].posted] == [
        (1, 4096, Verb.WRITE),
        (1, 904, Verb.WRITE_IMM),
        (2, 10, Verb.WRITE_IMM),
    ]


def test_a_single_packet_that_has_to_wait_is_sent_with_the_batch() -> None:
    rank = Rank()
    rank.link.channel(1)
    rank.channels[1].is_busy = True
    assert rank.post(tag=1, size=100)
    rank.link.send(now=0)
    assert rank.channels[1].sends == 1


def test_several_queue_pairs_share_the_messages_of_a_transfer_and_no_packet_goes_alone() -> None:
    rank = Rank(qps=2, message_bytes=1 << 20)
    assert rank.post(tag=1, size=100)
    assert rank.post(tag=2, size=2 << 20)
    rank.link.send(now=0)
    assert [message.address for message in rank.channels[1].posted] == [1, 2]
    assert [message.address for message in rank.channels[2].posted] == [2]
    assert (rank.channels[1].sends, rank.channels[2].sends) == (1, 1)


def test_a_transfer_is_acknowledged_when_its_last_message_is_and_the_next_ones_follow() -> None:
    rank = Rank(message_bytes=4096)
    for tag in range(1, 13):
        rank.post(tag, 8192)
    rank.link.send(now=0)
    first = len(rank.channels[1].posted)
    assert first < 24  # there is room for a window and a message
    rank.acknowledge(1, count=1, now=3)
    assert rank.acknowledgements == []
    rank.acknowledge(1, count=2, now=4)
    assert rank.acknowledgements == [(1, 4)]
    while rank.channels[1].posted:
        rank.acknowledge(1, count=1, now=5)
    assert [tag for tag, _ in rank.acknowledgements] == list(range(1, 13))


def test_control_is_acknowledged_by_itself() -> None:
    rank = Rank()
    rank.link.channel(0)
    rank.link.completed(0, [Message(Verb.WRITE_IMM, 0, 8), Message(Verb.WRITE_IMM, 0, 9)], 6)
    assert rank.acknowledgements == [(8, 6), (9, 6)]


def test_transfers_of_one_message_arrive_with_their_count() -> None:
    rank = Rank()
    rank.link.delivered(0, link_delivered(tag=3, size=0, messages=4), 1)
    rank.link.delivered(1, link_delivered(tag=4, size=100, messages=2), 2)
    assert rank.arrivals == [(3, 0, 1, 4), (4, 100, 2, 2)]


def test_a_transfer_of_several_messages_arrives_once_with_its_size() -> None:
    rank = Rank()
    rank.link.delivered(1, link_delivered(9, 4096, imm=None), 1)
    assert rank.arrivals == []
    rank.link.delivered(1, link_delivered(9, 4, imm=2), 2)
    assert rank.arrivals == [(9, 4100, 2, 1)]


@pytest.mark.parametrize("imm", [0, 2, 5])
def test_a_transfer_whose_number_of_messages_is_wrong_breaks_the_connection_once(imm: int) -> None:
    rank = Rank()
    rank.link.delivered(1, link_delivered(9, 100, imm=imm), 1)
    assert len(rank.reasons) == 1
    assert "different version" in rank.reasons[0]
    assert rank.link.is_broken
    rank.link.broke("again")
    rank.link.delivered(1, link_delivered(9, 100), 2)
    rank.link.completed(0, [Message(Verb.WRITE_IMM, 0, 8)], 3)
    assert len(rank.reasons) == 1
    assert [now for *_, now, _ in rank.arrivals if now == 2] == rank.acknowledgements == []


def test_closing_closes_every_queue_pair_without_a_failure() -> None:
    rank = Rank(qps=2)
    for index in range(3):
        rank.link.channel(index)
    rank.link.close()
    assert all(channel.is_closed for channel in rank.channels.values())
    assert rank.reasons == []


def test_figures_of_a_link_are_sums_over_its_queue_pairs() -> None:
    rank = Rank(qps=2)
    assert (rank.link.drops, rank.link.acknowledged_bytes, list(rank.link.channels)) == (Counter(), 0, [])
    for index in (0, 2):
        rank.link.channel(index)
        rank.channels[index].pair.drop("icrc", index + 1)
        rank.channels[index].acknowledged_bytes = 10
    assert rank.link.drops == {"icrc": 4}
    assert rank.link.acknowledged_bytes == 20
