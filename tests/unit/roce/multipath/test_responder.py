"""What a receiver of sprayed packets delivers, and what it says is here."""

from emulator.roce.connection.messages import ConnectionSettings
from emulator.roce.multipath.responder import PACKETS_PER_ACK, MultipathResponder
from emulator.roce.multipath.wire import MOST_AHEAD, MOST_REPORTS, Placed, Reason, SelectiveAck
from emulator.roce.wire.headers import Syndrome
from emulator.roce.wire.psn import Psn


def packet(psn: int, *, ends: bool = False, address: int | None = None) -> Placed:
    return Placed(Psn(psn), 100 + 10 * psn if address is None else address, 0, 10, 7 if ends else None, ends, 28)


def answered(responder: MultipathResponder) -> SelectiveAck:
    ack = responder.take_reply()
    assert isinstance(ack, SelectiveAck)
    return ack


def test_a_message_is_delivered_once_all_of_it_is_here() -> None:
    responder = MultipathResponder(ConnectionSettings())
    for psn in (2, 0, 2):
        responder.place(packet(psn, ends=psn == 2))
    ack = answered(responder)
    assert (ack.psn, ack.bitmap, [one.reason for one in ack.reports]) == (0, b"\x02", [Reason.DUPLICATE])
    assert not responder.delivered
    responder.place(packet(1))
    (done,) = responder.delivered
    assert (done.address, done.size, done.imm) == (100, 30, 7)
    assert (answered(responder).psn, responder.take_reply()) == (2, None)
    assert (responder.early_packets, responder.largest_displacement, responder.duplicates) == (1, 2, 1)


def test_an_address_that_does_not_continue_the_message_breaks_the_connection() -> None:
    responder = MultipathResponder(ConnectionSettings())
    responder.place(packet(0))
    responder.place(packet(1, address=5))
    assert responder.is_broken
    assert answered(responder).syndrome == Syndrome.INVALID_REQUEST
    responder.place(packet(1))
    assert responder.refused_packets == 1


def test_what_is_trimmed_is_asked_for_at_once_but_not_what_is_here() -> None:
    responder = MultipathResponder(ConnectionSettings())
    responder.place(packet(1))
    assert not responder.is_reply_due
    responder.cut_short(Psn(1))
    assert not responder.is_reply_due
    responder.cut_short(Psn(0))
    assert responder.is_reply_due
    assert (responder.trimmed, answered(responder).reports) == (2, [(Reason.TRIMMED, 0)])


def test_marks_give_way_to_what_is_to_be_sent_again() -> None:
    responder = MultipathResponder(ConnectionSettings())
    responder.begin()
    for psn in range(2 * MOST_REPORTS):
        responder.place(packet(psn))
    responder.report_marks()
    responder.cut_short(Psn(90))
    reports = answered(responder).reports
    assert len(reports) <= MOST_REPORTS
    assert (Reason.TRIMMED, 90) in reports


def test_many_packets_are_acknowledged_without_waiting_and_strangers_refused() -> None:
    responder = MultipathResponder(ConnectionSettings())
    for psn in range(PACKETS_PER_ACK):
        assert not responder.is_reply_due
        responder.place(packet(psn))
    assert responder.is_reply_due
    responder.place(packet(PACKETS_PER_ACK + 2 * MOST_AHEAD + 1))
    assert responder.refused_packets == 1
