"""A rank and one of its peers: queue pairs of transfers, and events for the rank."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from agents.transports.roce.link import RankLink
from emulator.roce.connection.messages import ConnectionSettings, Delivered, Message, Verb
from emulator.roce.wire.opcodes import PacketOperation

SETTINGS = ConnectionSettings(path_mtu=1024, window_packets=16)
PEER = 7


class Pair:
    """The parts of a queue pair that a link uses."""

    def __init__(self) -> None:
        self.requester = SimpleNamespace(backlog=0)
        self.drops: Counter[str] = Counter()


class ChannelDouble:
    """A queue pair that records its messages; single packets leave at once unless it is busy."""

    def __init__(self, index: int) -> None:
        self.index, self.pair = index, Pair()
        self.posted: list[Message] = []
        self.singles: list[Message] = []
        self.sends = 0
        self.is_busy = self.is_closed = False
        self.acknowledged_bytes = 0

    def post(self, message: Message) -> None:
        self.posted.append(message)
        self.pair.requester.backlog += 1

    def post_single(self, message: Message, ready: list[Any], now: int) -> bool:
        if self.is_busy:
            self.post(message)
            return False
        self.singles.append(message)
        ready.append(self)
        return True

    def send(self, now: int) -> None:
        self.sends += 1
        self.pair.requester.backlog = 0

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


def delivered(tag: int, size: int, imm: int | None = 1, messages: int = 1) -> Delivered:
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
    rank.link.delivered(0, delivered(tag=3, size=0, messages=4), 1)
    rank.link.delivered(1, delivered(tag=4, size=100, messages=2), 2)
    assert rank.arrivals == [(3, 0, 1, 4), (4, 100, 2, 2)]


def test_a_transfer_of_several_messages_arrives_once_with_its_size() -> None:
    rank = Rank()
    rank.link.delivered(1, delivered(9, 4096, imm=None), 1)
    assert rank.arrivals == []
    rank.link.delivered(1, delivered(9, 4, imm=2), 2)
    assert rank.arrivals == [(9, 4100, 2, 1)]


@pytest.mark.parametrize("imm", [0, 2, 5])
def test_a_transfer_whose_number_of_messages_is_wrong_breaks_the_connection_once(imm: int) -> None:
    rank = Rank()
    rank.link.delivered(1, delivered(9, 100, imm=imm), 1)
    assert len(rank.reasons) == 1
    assert "different version" in rank.reasons[0]
    assert rank.link.is_broken
    rank.link.broke("again")
    rank.link.delivered(1, delivered(9, 100), 2)
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
        rank.channels[index].pair.drops["icrc"] = index + 1
        rank.channels[index].acknowledged_bytes = 10
    assert rank.link.drops == {"icrc": 4}
    assert rank.link.acknowledged_bytes == 20
