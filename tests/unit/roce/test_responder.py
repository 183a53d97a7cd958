"""What a responder takes and refuses; that whole messages arrive is in property/test_roce_connection.py."""

from emulator.roce.constants import LARGEST_MESSAGE_BYTES
from emulator.roce.headers import NO_CREDIT_LIMIT, Syndrome
from emulator.roce.messages import LEAST_REACH_PACKETS, Arrival, ConnectionSettings, Delivered
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
    assert responder.take_reply() == (0, Syndrome.SEQUENCE_ERROR, 0)


def test_one_nak_for_a_gap_and_another_when_what_was_sent_again_is_lost_too() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256))
    for psn in (3, 4, 5, 6):
        responder.receive(middle(psn))
    assert responder.is_refusing
    assert responder.take_reply() == (0, Syndrome.SEQUENCE_ERROR, 0)
    for psn in (7, 8):
        responder.receive(middle(psn))
    assert responder.take_reply() is None
    responder.receive(middle(1))
    assert responder.take_reply() == (0, Syndrome.SEQUENCE_ERROR, 0)
    assert responder.naks == 2


def first(packets: int) -> Arrival:
    return Arrival(Opcode.RC_WRITE_FIRST, Psn(0), size=256, address=5, length=packets * 256)


def test_packets_that_come_as_a_run_count_one_by_one() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256))
    responder.receive(first(7))
    responder.receive(middle(1)._replace(packets=5))
    responder.receive(Arrival(Opcode.RC_WRITE_LAST, Psn(6), size=256, ack_request=True))
    assert responder.delivered == [Delivered(Operation.WRITE, 5, 7 * 256, None)]
    assert responder.unacknowledged == 7
    assert responder.take_reply() == (6, NO_CREDIT_LIMIT, 1)
    assert (responder.take_reply(), responder.unacknowledged) == (None, 0)


def test_what_came_early_is_used_once() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256, is_ooo=True))
    responder.receive(first(9))
    for psn in (3, 2):
        responder.receive(middle(psn))
    assert not responder.take_middles(1)
    responder.receive(middle(1))
    assert (responder.expected, responder.early_packets, responder.largest_displacement) == (4, 2, 2)
    assert responder.take_middles(1)


def test_no_end_is_taken_alone_where_what_follows_came_before_it() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256, is_ooo=True))
    responder.receive(first(2))
    responder.receive(first(2)._replace(psn=Psn(2)))
    assert responder.take_last(256, imm=None, ack_request=False) is None
    responder.receive(Arrival(Opcode.RC_WRITE_LAST, Psn(1), size=256))
    assert (responder.expected, len(responder.delivered)) == (3, 1)
    assert responder.take_last(256, imm=None, ack_request=False) == Delivered(Operation.WRITE, 5, 512, None)


def test_the_ends_of_a_write_are_taken_as_packets_are() -> None:
    settings = ConnectionSettings(path_mtu=256)
    for imm in (None, 3):
        quick, plain = Responder(settings, initial_psn=0xFFFFFF), Responder(settings, initial_psn=0xFFFFFF)
        assert quick.take_first(5, 700, ack_request=False)
        assert quick.take_middles(1)
        assert quick.take_last(188, imm=imm, ack_request=True) == Delivered(Operation.WRITE, 5, 700, imm)
        last = Opcode.RC_WRITE_LAST if imm is None else Opcode.RC_WRITE_LAST_IMM
        plain.receive(Arrival(Opcode.RC_WRITE_FIRST, Psn(0xFFFFFF), size=256, address=5, length=700))
        plain.receive(middle(0))
        plain.receive(Arrival(last, Psn(1), size=188, ack_request=True, imm=imm or 0))
        assert plain.delivered == [Delivered(Operation.WRITE, 5, 700, imm)]
        for responder in (quick, plain):
            assert (responder.expected, responder.unacknowledged, responder.is_urgent) == (2, 3, True)
            assert (responder.received_bytes, responder.take_reply()) == (0, (1, NO_CREDIT_LIMIT, 1))


def test_ends_that_fit_no_write_under_way_are_not_taken() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256))
    assert responder.take_last(256, imm=None, ack_request=True) is None
    for length in (0, 256, LARGEST_MESSAGE_BYTES + 1):
        assert not responder.take_first(5, length, ack_request=False)
    assert responder.take_first(5, 768, ack_request=False)
    assert not responder.take_first(5, 768, ack_request=False)
    for size in (0, 256, 257, 512):
        assert responder.take_last(size, imm=None, ack_request=True) is None
    assert (responder.expected, responder.received_bytes) == (1, 256)


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
