from random import Random

import pytest

from agents.transports.roce.transfers import Incoming, Outgoing
from emulator.roce.connection.messages import Delivered, Message, Verb
from emulator.roce.wire.opcodes import PacketOperation


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
