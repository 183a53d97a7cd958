"""What a responder refuses; that it delivers is in property/test_roce_connection.py."""

from agents.roce.headers import Syndrome
from agents.roce.messages import LEAST_REACH_PACKETS, Arrival, ConnectionSettings
from agents.roce.opcodes import Opcode
from agents.roce.psn import Psn
from agents.roce.responder import Responder


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
