"""Losses, acknowledgements and go-back-N, in captures before and behind the loss."""

import pytest

from emulator.annexes.bench_kit.audit.flow import FrameRule
from emulator.annexes.bench_kit.audit.tracking import RequestStats
from emulator.roce.wire.headers import Aeth, AtomicAckEth, AtomicEth, Bth
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.packet import pack_packet
from emulator.roce.wire.psn import Psn
from tests.support.roce_capture import CLIENT_QP, MTU, Conversation, broken


def clean(talk: Conversation) -> RequestStats:
    """What is known of the requests of a conversation, in which no rule is broken."""
    report = talk.audit()
    assert broken(report) == []
    return report.flows[0].stats


def test_without_responses_go_back_n_is_unclear() -> None:
    talk = Conversation()
    talk.write(3 * MTU)
    talk.psn -= 2
    talk.request(Opcode.RC_WRITE_MIDDLE, payload=bytes(MTU))
    (flow,) = talk.audit().flows
    assert (flow.stats.restarts, flow.stats.go_back_n) == (1, "unclear")


def test_losses_of_unreliable_connections_are_counted() -> None:
    talk = Conversation()
    for psn in (1, 2, 5, 6):
        talk.request(Opcode.UC_SEND_ONLY, payload=bytes(8), psn=psn)
    report = talk.audit()
    stats = report.flows[0].stats
    assert report.violations == ()
    assert (stats.gaps, stats.missing, stats.go_back_n) == (1, 2, "none")


def test_a_gap_that_is_acknowledged(talk: Conversation) -> None:
    frames = talk.write(4 * MTU, skip=[1])
    talk.ack(messages=1)
    report = talk.audit()
    assert broken(report) == [(frames[1], FrameRule.PSN_CONTINUITY)]
    assert (report.flows[0].stats.gaps, report.flows[0].stats.missing) == (1, 1)


def test_an_unacknowledged_gap_is_a_loss(talk: Conversation) -> None:
    talk.write(4 * MTU, skip=[1])
    assert clean(talk).missing == 1


def test_an_ack_of_what_was_never_sent(talk: Conversation) -> None:
    frame = talk.ack(talk.psn)
    talk.write(MTU)
    talk.ack(messages=1)
    assert broken(talk.audit()) == [(frame, FrameRule.ACK_UNSENT)]


def test_a_nak_must_name_the_first_missing_psn(talk: Conversation) -> None:
    first = talk.psn
    packets = talk.packets_of_write(4 * MTU)
    talk.send(packets, 0, 2, 3)
    frame = talk.nak(first + 2)
    assert broken(talk.audit()) == [(frame, FrameRule.NAK_EXPECTED)]


@pytest.mark.parametrize(("acked", "named"), [(-2, -4), (None, -1), (None, 1)])
def test_a_nak_of_what_was_acknowledged_is_newest_or_not_sent(
    talk: Conversation, acked: int | None, named: int
) -> None:
    talk.write(2 * MTU)
    if acked is not None:
        talk.ack(talk.psn + acked)
    frame = talk.nak(talk.psn + named)
    assert broken(talk.audit()) == [(frame, FrameRule.NAK_EXPECTED)]


def resend(talk: Conversation, psns: list[int], size: int) -> list[int]:
    """Send a WRITE, send a NAK for its second packet, and send some of its packets again."""
    packets = talk.packets_of_write(size)
    talk.send(packets)
    talk.nak(packets[1][3])
    return talk.send(packets, *psns)


def test_a_retransmission_from_the_naked_psn_is_go_back_n(talk: Conversation) -> None:
    resend(talk, [1, 2, 3, 4], 5 * MTU)
    talk.ack(messages=1)
    stats = clean(talk)
    assert (stats.restarts, stats.restarts_after_nak, stats.retransmitted) == (1, 1, 4)
    assert (stats.duplicates, stats.go_back_n) == (4, "followed")


def test_a_retransmission_after_a_timeout_is_go_back_n(talk: Conversation) -> None:
    packets = talk.packets_of_write(3 * MTU)
    talk.send([*packets, *packets])
    stats = clean(talk)
    assert (stats.restarts, stats.restarts_after_nak, stats.go_back_n) == (1, 0, "followed")


def test_the_first_packets_are_sent_again_after_a_lost_acknowledgement() -> None:
    talk = Conversation()
    packets = talk.packets_of_write(2 * MTU)
    for _ in range(2):
        talk.send(packets)
        talk.ack(msn=1)
    stats = clean(talk)
    assert (stats.restarts, stats.retransmitted, stats.go_back_n) == (1, 2, "followed")


@pytest.mark.parametrize(("again", "at", "missing"), [([2, 3, 4], 0, 0), ([1, 4], 1, 2)])
def test_a_retransmission_that_starts_elsewhere_or_leaves_something_out(
    talk: Conversation, again: list[int], at: int, missing: int
) -> None:
    frames = resend(talk, again, 5 * MTU)
    report = talk.audit()
    assert broken(report) == [(frames[at], FrameRule.GO_BACK_N)]
    assert (report.flows[0].stats.go_back_n, report.flows[0].stats.missing) == ("broken", missing)


def test_a_selective_repeat(talk: Conversation) -> None:
    resend(talk, [1], 5 * MTU)
    frame, *_ = talk.write(MTU)
    assert broken(talk.audit()) == [(frame, FrameRule.GO_BACK_N)]


def test_a_retransmission_can_skip_psns_acknowledged_in_the_meantime(talk: Conversation) -> None:
    first = talk.psn
    resend(talk, [1, 2], 5 * MTU)
    talk.ack(first + 3)
    talk.request(Opcode.RC_WRITE_LAST, payload=bytes([5]) * MTU, psn=first + 4)
    assert broken(talk.audit()) == []


def test_behind_a_loss_a_retransmission_with_holes_is_not_judged(talk: Conversation) -> None:
    """On the server's side: the second packet is lost, and so is the third packet of the retransmission."""
    packets = talk.packets_of_write(5 * MTU)
    talk.send(packets, 0, 2, 3, 4)
    talk.nak(packets[1][3])
    talk.send(packets, 1, 3, 4)
    talk.ack(messages=1)
    stats = clean(talk)
    assert (stats.missing, stats.refilled, stats.go_back_n) == (2, 1, "followed")


def test_a_repeated_psn_with_another_length(talk: Conversation) -> None:
    talk.request(Opcode.RC_SEND_ONLY, payload=bytes(8))
    frame = talk.request(Opcode.RC_SEND_ONLY, payload=bytes(12), psn=talk.psn - 1)
    assert broken(talk.audit()) == [(frame, FrameRule.RETRANSMISSION)]


def test_a_read_takes_a_psn_for_every_packet_of_its_response(talk: Conversation) -> None:
    first = talk.psn
    talk.read(3)
    talk.respond(first, 3)
    talk.write(MTU)
    talk.ack(msn=4)
    report = talk.audit()
    assert broken(report) == []
    assert report.flows[0].stats.gaps == 0
    assert report.flows[1].carried.read_bytes == 3 * MTU


def test_a_refilled_gap_is_no_longer_reported_when_it_is_acknowledged(talk: Conversation) -> None:
    packets = talk.packets_of_write(3 * MTU)
    talk.send(packets, 0, 2)
    talk.nak(packets[1][3])
    talk.send(packets, 1)
    talk.ack(messages=1)
    stats = clean(talk)
    assert (stats.gaps, stats.missing, stats.refilled, stats.retransmitted, stats.duplicates) == (1, 1, 1, 1, 0)
    assert stats.reordered == 0


def test_psns_wrap_without_a_gap() -> None:
    talk = Conversation(first_psn=(1 << 24) - 2)
    talk.write(5 * MTU)
    talk.ack(messages=1)
    stats = talk.audit().flows[0].stats
    assert (stats.gaps, stats.restarts, stats.new_bytes) == (0, 0, 5 * MTU)


def test_a_nak_from_before_the_capture_shows_that_it_was_made_behind_a_loss() -> None:
    talk = Conversation()
    talk.write(2 * MTU)
    talk.ack(messages=1)
    talk.nak(talk.psn - 4)
    assert clean(talk).is_behind_loss


def test_a_damaged_packet_is_not_a_gap(talk: Conversation) -> None:
    packets = talk.packets_of_write(3 * MTU)
    for index, (opcode, extensions, payload, psn) in enumerate(packets):
        talk.request(opcode, *extensions, payload=payload, psn=psn, crc=1 if index == 1 else None)
    talk.ack(messages=1)
    report = talk.audit()
    assert [rule for _, rule in broken(report)] == [FrameRule.ICRC]
    assert report.flows[0].stats.gaps == 0


def atomic(talk: Conversation, *, psn: int = 0, opcode: Opcode = Opcode.RC_FETCH_ADD) -> int:
    psn = psn or talk.psn
    talk.psn = max(talk.psn, psn + 1)
    return talk.request(opcode, AtomicEth(0, 1, 2, 3), psn=psn)


def answer_atomic(talk: Conversation, psn: int) -> int:
    bth = Bth(Opcode.RC_ATOMIC_ACK, Psn(psn), CLIENT_QP)
    return talk.add(talk.to_client, pack_packet(bth, Aeth(0x1F, 1), AtomicAckEth(7)))


def lose_a_write(talk: Conversation) -> None:
    """A NAK and a retransmission: they show that the capture was made before the loss, so that go-back-N is judged."""
    resend(talk, [1, 2], 3 * MTU)
    talk.ack(messages=1)


def test_a_read_continues_at_the_first_response_that_is_missing(talk: Conversation) -> None:
    lose_a_write(talk)
    first = talk.psn
    talk.read(4)
    talk.read(2, address=0x9000)
    talk.respond(first, 4, only=range(1))
    talk.respond(first, 4, only=range(2, 4))
    talk.respond(first + 4, 2)
    talk.read(3, psn=first + 1, address=MTU)
    talk.read(2, psn=first + 4, address=0x9000)
    talk.respond(first + 1, 3)
    talk.respond(first + 4, 2)
    report = talk.audit()
    assert broken(report) == []
    flow = report.flows[0]
    assert (flow.stats.go_back_n, flow.stats.duplicates, flow.stats.gaps) == ("followed", 4, 0)
    assert flow.messages.sizes == {3 * MTU + 5: 2, 3 * MTU: 1, 4 * MTU: 1, 2 * MTU: 1}


def test_a_read_that_the_responder_had_no_room_for_does_not_show_where_packets_were_lost(talk: Conversation) -> None:
    first = talk.psn
    for _ in range(4):
        talk.read(1)
    talk.respond(first, 1)
    for psn in (first + 1, first + 3):  # the one between was lost before the capture
        talk.read(1, psn=psn)
    talk.nak(first + 2)  # of a READ that it received, and dropped
    assert clean(talk).go_back_n == "followed"


@pytest.mark.parametrize("lost", range(4))
def test_behind_the_responder_a_read_continues_anywhere(talk: Conversation, lost: int) -> None:
    """The capture has the response that the requester lacks, because it was lost after the capture."""
    lose_a_write(talk)
    first = talk.psn
    talk.read(4)
    talk.respond(first, 4)
    talk.write(MTU)
    talk.ack(messages=1)
    talk.read(4 - lost, psn=first + lost, address=lost * MTU)
    talk.write(MTU)
    assert clean(talk).go_back_n == "followed"


def test_a_response_to_a_read_does_not_acknowledge_the_reads_before(talk: Conversation) -> None:
    lose_a_write(talk)
    first = talk.psn
    for _ in range(20):
        talk.read(1)
    for psn in range(first + 1, first + 20):
        talk.respond(psn, 1)
    for psn in range(first, first + 20):
        talk.read(1, psn=psn)
    assert clean(talk).go_back_n == "followed"


def test_a_send_before_an_answered_read_needs_no_acknowledgement_of_its_own(talk: Conversation) -> None:
    lose_a_write(talk)
    talk.write(MTU)
    first = talk.psn
    talk.read(2)
    talk.respond(first, 2)
    frame = talk.request(Opcode.RC_WRITE_MIDDLE, payload=bytes(MTU), psn=first - 2)
    assert (frame, FrameRule.GO_BACK_N) in broken(talk.audit())


@pytest.mark.parametrize("opcode", [Opcode.RC_FETCH_ADD, Opcode.RC_COMPARE_SWAP])
def test_an_atomic_whose_answer_is_lost_is_sent_again_and_answered_again(talk: Conversation, opcode: Opcode) -> None:
    lose_a_write(talk)
    first = talk.psn
    for psn in (first, first + 1):
        atomic(talk, psn=psn, opcode=opcode)
    answer_atomic(talk, first + 1)
    for psn in (first, first + 1):
        atomic(talk, psn=psn, opcode=opcode)
        answer_atomic(talk, psn)
    assert clean(talk).go_back_n == "followed"


def test_a_repeated_read_of_other_bytes_is_a_violation(talk: Conversation) -> None:
    first = talk.psn
    talk.read(3)
    frame = talk.read(2, psn=first + 1, address=5)
    assert broken(talk.audit()) == [(frame, FrameRule.RETRANSMISSION)]


def test_a_write_in_the_middle_of_a_read(talk: Conversation) -> None:
    first = talk.psn
    talk.read(3)
    frame = talk.request(Opcode.RC_SEND_ONLY, psn=first + 1)
    assert (frame, FrameRule.RETRANSMISSION) in broken(talk.audit())


def test_a_read_response_to_a_write(talk: Conversation) -> None:
    (frame,) = talk.respond(talk.psn - 1, 1)
    assert broken(talk.audit()) == [(frame, FrameRule.RESPONSE)]


def test_a_nak_within_a_read_that_was_accepted(talk: Conversation) -> None:
    first = talk.psn
    talk.read(3)
    talk.write(MTU)
    talk.respond(first, 3)
    frame = talk.nak(first + 1)
    assert broken(talk.audit()) == [(frame, FrameRule.NAK_EXPECTED)]


def test_a_nak_of_the_newest_read(talk: Conversation) -> None:
    first = talk.psn
    talk.read(3)
    frame = talk.nak(first)
    assert broken(talk.audit()) == [(frame, FrameRule.NAK_EXPECTED)]


def test_a_lost_read_that_comes_later_fills_its_gap(talk: Conversation) -> None:
    first = talk.psn
    talk.psn += 3
    talk.write(MTU)
    talk.nak(first)
    talk.read(3, psn=first)
    talk.respond(first, 3)
    stats = clean(talk)
    assert (stats.missing, stats.refilled, stats.is_behind_loss) == (3, 3, True)


@pytest.mark.parametrize("syndrome", [0x61, 0x62, 0x63])
def test_a_refused_request_ends_the_connection_without_a_violation(talk: Conversation, syndrome: int) -> None:
    first = talk.psn
    talk.read(3)
    talk.write(MTU)
    talk.ack(first, syndrome=syndrome)
    assert broken(talk.audit()) == []


def test_a_receiver_that_is_not_ready_gets_everything_again(talk: Conversation) -> None:
    first = talk.psn
    packets = talk.packets_of_write(3 * MTU)
    for _ in range(2):
        talk.send(packets)
        talk.ack(first, syndrome=0x2C)
    talk.send(packets)
    talk.ack(messages=1)
    stats = clean(talk)
    assert (stats.restarts, stats.restarts_after_nak, stats.go_back_n) == (2, 2, "followed")


def test_after_a_receiver_was_not_ready_a_hole_can_be_a_loss(talk: Conversation) -> None:
    """It refuses what arrived, so a NAK of a captured PSN does not show where the capture was made."""
    packets = talk.packets_of_write(4 * MTU)
    talk.send(packets)
    talk.ack(packets[0][3], syndrome=0x2C)
    talk.nak(packets[0][3])
    talk.send(packets, 0, 2, 3)
    talk.nak(packets[1][3])
    talk.send(packets, 1, 2, 3)
    talk.ack(messages=1)
    assert clean(talk).go_back_n == "followed"


def test_without_a_nak_of_a_captured_packet_a_hole_can_be_a_loss(talk: Conversation) -> None:
    packets = talk.packets_of_write(4 * MTU)
    talk.send(packets, 0, 1, 2, 3, 0, 2, 3)
    talk.ack(messages=1)
    assert clean(talk).missing == 1
