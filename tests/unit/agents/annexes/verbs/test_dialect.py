import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.annexes.verbs.dialect import LOWEST_BITS, MOST_IN_FLIGHT, Arrived, MessageKind, VerbsIncoming, VerbsOutgoing
from emulator.roce.connection.messages import Message

ADDRESS, RKEY = 0x7F00_0000_1000, 0x1234


def outgoing(slots: int = 4, slot_bytes: int = 100) -> VerbsOutgoing:
    return VerbsOutgoing(slots=slots, slot_bytes=slot_bytes, address=ADDRESS, rkey=RKEY)


def kinds(messages: list[Message]) -> list[MessageKind]:
    return [MessageKind(message.imm >> LOWEST_BITS) for message in messages]


TRANSFERS = st.lists(st.tuples(st.integers(0, 2**64 - 1) | st.integers(0, 3), st.integers(0, 700)), max_size=40)


@given(TRANSFERS, st.integers(1, 9), st.data())
def test_whatever_is_posted_arrives_in_order_with_tag_and_size_and_no_slot_is_written_twice(
    transfers: list[tuple[int, int]], slots: int, data: st.DataObject
) -> None:
    """The wire keeps order; acknowledgements and returned slots come at any time."""
    sender, receiver = outgoing(slots), VerbsIncoming(slots=slots)
    back, far = outgoing(), VerbsIncoming(slots=4)  # the connection's other direction, for returned slots
    wire: list[Message] = []
    unread: set[int] = set()
    arrived, tags = [], []
    in_flight = 0
    for tag, size in transfers:
        sender.post(tag, size)
    while True:
        new = list(sender.next_messages())
        for message in new:
            if message.size:
                assert message.address not in unread, "a slot that has not been read"
                assert message.address + message.size <= ADDRESS + slots * 100
                unread.add(message.address)
        wire += new
        in_flight += len(new)
        if not wire:
            break
        for _ in range(data.draw(st.integers(1, len(wire)))):
            message = wire.pop(0)
            if (one := receiver.received(message.imm, message.size)) is not None:
                arrived.append(one)
            assert receiver.problem == ""
        tags += sender.acknowledged(in_flight - len(wire))
        in_flight = len(wire)
        if read := receiver.take_read():
            far.received(back.returned(read).imm, 0)
            sender.credit(far.credit)
            far.credit = 0
            written = [message.address for message in wire if message.size]
            unread = set(written)
        assert sender.is_consistent
    for is_control in (True, False):
        expected = [Arrived(tag, size) for tag, size in transfers if (size == 0) is is_control]
        assert [one for one in arrived if (one.size == 0) is is_control] == expected
    assert sorted(tags) == sorted(tag for tag, _ in transfers)
    assert sender.is_idle
    assert sender.acknowledged_bytes == sender.bytes == sum(size for _, size in transfers)


def test_no_more_messages_than_slots_are_on_their_way() -> None:
    sender = outgoing(slots=3)
    sender.post(1, 1000)
    assert kinds(list(sender.next_messages())) == [MessageKind.PART] * 3
    assert list(sender.next_messages()) == []
    sender.credit(1)
    (message,) = sender.next_messages()
    assert (message.address, message.rkey, message.size) == (ADDRESS, RKEY, 100), "the ring begins again"


def test_control_overtakes_payload_that_waits_for_slots() -> None:
    sender = outgoing(slots=1)
    sender.post(1, 1000)
    list(sender.next_messages())
    sender.post(2, 0)
    assert kinds(list(sender.next_messages())) == [MessageKind.CONTROL]


def test_upper_bits_of_tags_travel_when_they_change() -> None:
    sender = outgoing()
    for tag in (5, 6, 1 << 63 | 6, 1 << 63 | 1 << 40, 1 << 63 | 1 << 40):
        sender.post(tag, 1)
        sender.credit(1)
    assert kinds(list(sender.next_messages())) == [
        MessageKind.END, MessageKind.END, MessageKind.END_UPPER,
        MessageKind.END, MessageKind.END_MIDDLE, MessageKind.END, MessageKind.END,
    ]  # fmt: skip


def test_a_queue_of_work_requests_never_overflows() -> None:
    sender = outgoing()
    for tag in range(1000):
        sender.post(tag << 40, 0)
    assert len(list(sender.next_messages())) < MOST_IN_FLIGHT


def test_an_end_that_returns_what_was_never_filled_is_noticed() -> None:
    sender = outgoing(slots=4)
    sender.credit(1)
    assert not sender.is_consistent


@pytest.mark.parametrize(
    ("imm", "size", "problem"),
    [
        (MessageKind.PART << LOWEST_BITS, 0, "PART with 0 bytes"),
        (MessageKind.CREDIT << LOWEST_BITS | 1, 5, "CREDIT with 5 bytes"),
    ],
)
def test_a_message_of_the_wrong_size_is_a_problem(imm: int, size: int, problem: str) -> None:
    receiver = VerbsIncoming(slots=2)
    assert receiver.received(imm, size) is None
    assert problem in receiver.problem


def test_writing_to_a_slot_that_was_not_returned_is_a_problem() -> None:
    receiver = VerbsIncoming(slots=2)
    for _ in range(3):
        receiver.received(MessageKind.PART << LOWEST_BITS, 10)
    assert "without waiting for a free one" in receiver.problem
