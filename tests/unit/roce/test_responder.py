"""What a responder takes and refuses; that whole messages arrive is in property/test_roce_connection.py."""

import pytest
from msgspec.structs import replace

from emulator.roce.constants import LARGEST_MESSAGE_BYTES
from emulator.roce.headers import NO_CREDIT_LIMIT, Syndrome
from emulator.roce.memory import Memory, MemoryRegion
from emulator.roce.messages import LEAST_REACH_PACKETS, Arrival, ConnectionSettings, Delivered, Reply
from emulator.roce.opcodes import Opcode, Operation
from emulator.roce.psn import Psn
from emulator.roce.responder import Responder


def middle(psn: int) -> Arrival:
    return Arrival(Opcode.RC_WRITE_MIDDLE, Psn(psn), size=256)


def test_a_packet_beyond_anybodys_window_is_refused_and_draws_no_answer() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256))
    for psn in (LEAST_REACH_PACKETS + 1, 1 << 23, (1 << 24) - LEAST_REACH_PACKETS - 1):
        responder.receive(middle(psn))
    assert (responder.refused_packets, responder.take_reply()) == (3, None)
    responder.receive(middle(LEAST_REACH_PACKETS))
    assert responder.take_reply() == Reply(Psn(0), Syndrome.SEQUENCE_ERROR, 0)


def test_one_nak_for_a_gap_and_another_when_what_was_sent_again_is_lost_too() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256))
    for psn in (3, 4, 5, 6):
        responder.receive(middle(psn))
    assert responder.is_refusing
    assert responder.take_reply() == Reply(Psn(0), Syndrome.SEQUENCE_ERROR, 0)
    for psn in (7, 8):
        responder.receive(middle(psn))
    assert responder.take_reply() is None
    responder.receive(middle(1))
    assert responder.take_reply() == Reply(Psn(0), Syndrome.SEQUENCE_ERROR, 0)
    assert responder.naks == 2


def first(packets: int) -> Arrival:
    return Arrival(Opcode.RC_WRITE_FIRST, Psn(0), size=256, address=5, length=packets * 256)


def test_packets_that_come_as_a_run_count_one_by_one() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256))
    responder.receive(first(7))
    responder.receive(replace(middle(1), packets=5))
    responder.receive(Arrival(Opcode.RC_WRITE_LAST, Psn(6), size=256, ack_request=True))
    assert responder.delivered == [Delivered(Operation.WRITE, 5, 7 * 256, None)]
    assert responder.unacknowledged == 7
    assert responder.take_reply() == Reply(Psn(6), NO_CREDIT_LIMIT, 1)
    assert (responder.take_reply(), responder.unacknowledged) == (None, 0)


def test_what_came_early_is_used_once() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256, is_ooo=True))
    responder.receive(first(9))
    assert responder.middles_due == 7
    for psn in (3, 2):
        responder.receive(middle(psn))
    assert responder.middles_due == 0
    responder.receive(middle(1))
    assert (responder.expected, responder.early_packets, responder.largest_displacement) == (4, 2, 2)
    assert responder.middles_due == 4


def test_a_message_that_came_before_the_end_of_another_is_delivered_after_it() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256, is_ooo=True))
    responder.receive(first(2))
    responder.receive(replace(first(2), psn=Psn(2)))
    assert not responder.receive_writes(Delivered(Operation.WRITE, 5, 1, None), ack_request=True)
    responder.receive(Arrival(Opcode.RC_WRITE_LAST, Psn(1), size=256))
    assert (responder.expected, len(responder.delivered)) == (3, 1)
    responder.receive(Arrival(Opcode.RC_WRITE_LAST, Psn(3), size=256))
    assert responder.delivered == 2 * [Delivered(Operation.WRITE, 5, 512, None)]
    assert responder.receive_writes(Delivered(Operation.WRITE, 5, 1, None, 3), ack_request=True)
    assert (responder.expected, len(responder.delivered)) == (7, 3)


@pytest.mark.parametrize("imm", [None, 3])
def test_a_write_is_delivered_with_its_immediate_data_and_acknowledged_as_asked(imm: int | None) -> None:
    responder = Responder(ConnectionSettings(path_mtu=256), Psn(0xFFFFFF))
    last = Opcode.RC_WRITE_LAST if imm is None else Opcode.RC_WRITE_LAST_IMM
    responder.receive(Arrival(Opcode.RC_WRITE_FIRST, Psn(0xFFFFFF), size=256, address=5, length=700))
    responder.receive(middle(0))
    assert (responder.received_bytes, responder.length, responder.is_urgent) == (512, 700, False)
    responder.receive(Arrival(last, Psn(1), size=188, ack_request=True, imm=imm or 0))
    assert responder.delivered == [Delivered(Operation.WRITE, 5, 700, imm)]
    assert (responder.expected, responder.unacknowledged, responder.is_urgent) == (2, 3, True)
    assert (responder.received_bytes, responder.take_reply()) == (0, Reply(Psn(1), NO_CREDIT_LIMIT, 1))


def test_writes_of_one_packet_that_are_alike_are_delivered_together() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256))
    writes = Arrival(Opcode.RC_WRITE_ONLY_IMM, Psn(0), 5, 20, ack_request=True, address=7, length=20, imm=1)
    responder.receive(writes)
    assert responder.delivered == [Delivered(Operation.WRITE, 7, 20, 1, 5)]
    assert responder.take_reply() == Reply(Psn(4), NO_CREDIT_LIMIT, 5)
    responder.receive(replace(writes, psn=Psn(3)))
    assert (responder.duplicates, responder.delivered[1].messages) == (2, 3)


@pytest.mark.parametrize(
    "last",
    [
        Arrival(Opcode.RC_WRITE_LAST, Psn(1), size=0),
        Arrival(Opcode.RC_WRITE_LAST, Psn(1), size=257),
        Arrival(Opcode.RC_WRITE_LAST, Psn(1), size=256),
        Arrival(Opcode.RC_WRITE_LAST, Psn(1), packets=2, size=256),
        Arrival(Opcode.RC_SEND_LAST, Psn(1), size=256),
        Arrival(Opcode.RC_WRITE_FIRST, Psn(1), size=256, length=700),
        Arrival(Opcode.RC_WRITE_MIDDLE, Psn(1), size=255),
        Arrival(Opcode.RC_WRITE_MIDDLE, Psn(1), packets=2, size=256),
    ],
    ids=lambda last: f"{Opcode(last.opcode).name}-{last.packets}-{last.size}",
)
def test_what_does_not_fit_the_write_under_way_breaks_the_connection(last: Arrival) -> None:
    responder = Responder(ConnectionSettings(path_mtu=256))
    responder.receive(first(3))
    responder.receive(last)
    assert responder.is_broken
    assert responder.take_reply() == Reply(Psn(1), Syndrome.INVALID_REQUEST, 0)
    responder.receive(middle(1))
    assert (responder.expected, responder.refused_packets) == (1, 1)


@pytest.mark.parametrize("length", [0, 256, LARGEST_MESSAGE_BYTES + 1])
def test_a_first_packet_of_a_length_that_it_cannot_have_breaks_the_connection(length: int) -> None:
    responder = Responder(ConnectionSettings(path_mtu=256))
    responder.receive(replace(first(3), length=length))
    assert responder.is_broken


def test_a_nak_and_half_a_window_are_due_at_once() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256, ack_interval=3))
    responder.receive(first(9))
    responder.receive(middle(1))
    assert not responder.is_reply_due
    responder.receive(middle(2))
    assert responder.is_reply_due
    assert responder.take_reply() == Reply(Psn(2), NO_CREDIT_LIMIT, 0)
    responder.receive(middle(5))
    assert responder.is_reply_due


def test_a_packet_again_that_came_too_early_says_that_the_gap_was_lost_again() -> None:
    """The requester goes back to the packet that the NAK names: whatever comes next is newer than what came before."""
    responder = Responder(ConnectionSettings(path_mtu=256))
    for psn in (1, 1):
        responder.receive(middle(psn))
        assert responder.take_reply() == Reply(Psn(0), Syndrome.SEQUENCE_ERROR, 0)
    assert responder.naks == 2


def test_what_follows_a_message_that_found_no_receive_draws_no_nak_of_its_own() -> None:
    responder = Responder(ConnectionSettings(path_mtu=1024), receives=0)
    replies = []
    for psn in range(3):
        responder.receive(Arrival(Opcode.RC_SEND_ONLY, Psn(psn), 1, 100, True))
        replies.append(responder.take_reply())
    assert [reply and reply.syndrome & 0xE0 for reply in replies] == [Syndrome.RNR, None, None]
    assert responder.naks == 1
    responder.post_receives(3)
    for psn in range(3):
        responder.receive(Arrival(Opcode.RC_SEND_ONLY, Psn(psn), 1, 100, True))
    assert len(responder.delivered) == 3


def test_packets_are_taken_early_up_to_the_window_and_no_further() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256, is_ooo=True, ooo_window=4))
    responder.receive(first(9))
    responder.receive(middle(4))
    assert (responder.naks, responder.early_packets) == (0, 1)
    responder.receive(middle(5))
    assert (responder.naks, responder.early_packets) == (1, 2)


def test_a_packet_of_an_early_run_that_comes_again_says_that_the_gap_was_lost_again() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256))
    responder.receive(replace(middle(3), packets=3))
    assert responder.take_reply() is not None
    responder.receive(middle(4))
    assert responder.take_reply() == Reply(Psn(0), Syndrome.SEQUENCE_ERROR, 0)


def test_the_largest_message_may_begin() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256))
    responder.receive(replace(first(3), length=LARGEST_MESSAGE_BYTES))
    assert (responder.is_broken, responder.length) == (False, LARGEST_MESSAGE_BYTES)


@pytest.mark.parametrize(("length", "is_broken"), [(0, False), (9, True)])
def test_a_key_matters_only_where_there_is_something_to_write(length: int, is_broken: bool) -> None:
    memory = Memory([MemoryRegion(rkey=5, address=0, length=99)])
    responder = Responder(ConnectionSettings(path_mtu=256), memory=memory)
    responder.receive(Arrival(Opcode.RC_WRITE_ONLY, Psn(0), size=length, rkey=6, length=length))
    assert responder.is_broken is is_broken
