"""Every rule, broken once in a capture made by hand: the frame is named, and no other rule is blamed."""

from __future__ import annotations

import pytest

from emulator.audit.report import AuditReport
from emulator.audit.rules import Rule
from emulator.roce.headers import Aeth, Bth, Reth
from emulator.roce.opcodes import Opcode
from emulator.roce.packet import CNP_PAYLOAD, pack_packet
from emulator.roce.psn import Psn
from tests.support.roce_capture import CLIENT_QP, MTU, SERVER_QP, Conversation


def broken(report: AuditReport) -> list[tuple[int, Rule]]:
    return [(one.frame, one.rule) for one in report.violations]


@pytest.fixture
def talk() -> Conversation:
    """Two messages and their ACKs, all in order."""
    talk = Conversation()
    for _ in range(2):
        talk.write(3 * MTU + 5)
        talk.ack(messages=1)
    return talk


@pytest.mark.parametrize("is_v6", [False, True])
@pytest.mark.parametrize("first_psn", [100, (1 << 24) - 3])
def test_an_orderly_connection_breaks_nothing(is_v6: bool, first_psn: int) -> None:
    talk = Conversation(is_v6=is_v6, first_psn=first_psn)
    for size in (3 * MTU, 1, 0, 2 * MTU + 1):
        talk.write(size)
        talk.ack(messages=1)
    report = talk.audit()
    assert broken(report) == []
    flow = report.flows[0]
    assert flow.messages.sizes == {3 * MTU: 1, 1: 1, 0: 1, 2 * MTU + 1: 1}
    assert (flow.stats.gaps, flow.stats.retransmitted, flow.stats.go_back_n) == (0, 0, "none")
    assert flow.answers is not None
    assert flow.answers.acks == 4


def test_icrc(talk: Conversation) -> None:
    frame = talk.request(Opcode.RC_SEND_ONLY, payload=b"abcd", crc=0x12345678)
    talk.ack(messages=1)
    report = talk.audit()
    assert broken(report) == [(frame, Rule.ICRC)]
    assert report.flows[0].flow.icrc_bad == 1


def test_transport_version(talk: Conversation) -> None:
    def change(bth: Bth) -> None:
        bth.version = 1

    frame = talk.request(Opcode.RC_SEND_ONLY, payload=b"abcd", change=change)
    assert broken(talk.audit()) == [(frame, Rule.TRANSPORT_VERSION)]


def test_p_key(talk: Conversation) -> None:
    def change(bth: Bth) -> None:
        bth.p_key = 0x8001

    frame = talk.request(Opcode.RC_SEND_ONLY, payload=b"abcd", change=change)
    talk.ack(messages=1)
    assert broken(talk.audit()) == [(frame, Rule.P_KEY)]


def test_the_limited_member_of_the_default_partition_is_welcome(talk: Conversation) -> None:
    def change(bth: Bth) -> None:
        bth.p_key = 0x7FFF

    talk.request(Opcode.RC_SEND_ONLY, payload=b"abcd", change=change)
    assert broken(talk.audit()) == []


@pytest.mark.parametrize("opcode", [0x15, 0x1F, 0x2C, 0x70, 0x9F])
def test_an_opcode_that_is_none_is_malformed(talk: Conversation, opcode: int) -> None:
    packet = pack_packet(Bth(opcode, Psn(talk.psn), SERVER_QP), payload=bytes(4))
    assert broken_by(talk, packet) == Rule.MALFORMED


@pytest.mark.parametrize("opcode", [0x44, 0xA4, 0xC1, 0xE0])
def test_other_transport_services_are_left_alone_and_mentioned(talk: Conversation, opcode: int) -> None:
    talk.add(talk.to_server, pack_packet(Bth(opcode, Psn(5), SERVER_QP), payload=bytes(4)))
    report = talk.audit()
    assert broken(report) == []
    assert any(f"{opcode:#04x}" in note for note in report.notes)


def test_headers_that_do_not_fit_are_malformed(talk: Conversation) -> None:
    assert broken_by(talk, pack_packet(Bth(Opcode.RC_WRITE_ONLY, Psn(talk.psn), SERVER_QP))) == Rule.MALFORMED


def test_a_pad_that_is_longer_than_the_payload_is_malformed(talk: Conversation) -> None:
    bth = Bth(Opcode.RC_SEND_ONLY, Psn(talk.psn), SERVER_QP, pad=3)
    assert broken_by(talk, bth.pack()) == Rule.MALFORMED


def test_payload_behind_an_ack_is_malformed(talk: Conversation) -> None:
    packet = pack_packet(Bth(Opcode.RC_ACK, Psn(talk.psn - 1), SERVER_QP), Aeth(0x1F, 2), payload=bytes(4))
    assert broken_by(talk, packet) == Rule.MALFORMED


def test_a_datagram_too_short_for_any_packet_is_malformed(talk: Conversation) -> None:
    assert broken_by(talk, bytes(8)) == Rule.MALFORMED


def broken_by(talk: Conversation, packet: bytes) -> Rule:
    """The one rule that a packet breaks."""
    frame = talk.add(talk.to_server, packet)
    ((where, rule),) = broken(talk.audit())
    assert where == frame
    return rule


@pytest.mark.parametrize(
    ("bth", "payload", "problem"),
    [
        (Bth(Opcode.CNP, Psn(0), CLIENT_QP), CNP_PAYLOAD, "BECN"),
        (Bth(Opcode.CNP, Psn(1), CLIENT_QP, becn=True), CNP_PAYLOAD, "PSN is 0x1"),
        (Bth(Opcode.CNP, Psn(0), CLIENT_QP, becn=True), CNP_PAYLOAD[:-4], "12 bytes follow"),
        (Bth(Opcode.CNP, Psn(0), CLIENT_QP, becn=True), CNP_PAYLOAD[:-1] + b"\1", "not zero"),
    ],
)
def test_cnp_shape(talk: Conversation, bth: Bth, payload: bytes, problem: str) -> None:
    frame = talk.add(talk.to_client, pack_packet(bth, payload=payload))
    report = talk.audit()
    assert broken(report) == [(frame, Rule.CNP_SHAPE)]
    assert problem in report.violations[0].problem
    assert report.flows[1].carried.cnps == 1


def test_middle_without_first(talk: Conversation) -> None:
    frame = talk.request(Opcode.RC_WRITE_MIDDLE, payload=bytes(MTU))
    assert broken(talk.audit()) == [(frame, Rule.OPCODE_SEQUENCE)]


def test_first_before_the_last_message_ended(talk: Conversation) -> None:
    talk.request(Opcode.RC_SEND_FIRST, payload=bytes(MTU))
    frame = talk.request(Opcode.RC_SEND_ONLY, payload=bytes(4))
    assert broken(talk.audit()) == [(frame, Rule.OPCODE_SEQUENCE)]


def test_a_message_that_changes_its_operation(talk: Conversation) -> None:
    talk.request(Opcode.RC_SEND_FIRST, payload=bytes(MTU))
    frame = talk.request(Opcode.RC_WRITE_LAST, payload=bytes(4))
    assert broken(talk.audit()) == [(frame, Rule.OPCODE_SEQUENCE)]


def test_a_middle_that_is_no_path_mtu(talk: Conversation) -> None:
    talk.request(Opcode.RC_SEND_FIRST, payload=bytes(MTU))
    frame = talk.request(Opcode.RC_SEND_MIDDLE, payload=bytes(MTU - 4))
    talk.request(Opcode.RC_SEND_LAST, payload=bytes(4))
    assert broken(talk.audit()) == [(frame, Rule.PATH_MTU)]


@pytest.mark.parametrize("size", [0, MTU + 1])
def test_a_last_outside_its_bounds(talk: Conversation, size: int) -> None:
    talk.request(Opcode.RC_SEND_FIRST, payload=bytes(MTU))
    frame = talk.request(Opcode.RC_SEND_LAST, payload=bytes(size))
    assert broken(talk.audit()) == [(frame, Rule.PATH_MTU)]


def test_an_only_above_the_path_mtu(talk: Conversation) -> None:
    frame = talk.request(Opcode.RC_SEND_ONLY, payload=bytes(MTU + 4))
    assert broken(talk.audit()) == [(frame, Rule.PATH_MTU)]


def test_a_message_shorter_than_its_reth(talk: Conversation) -> None:
    *_, last = talk.write(2 * MTU, announced=2 * MTU + 1)
    assert broken(talk.audit()) == [(last, Rule.MESSAGE_LENGTH)]


def test_a_gap_that_is_acknowledged(talk: Conversation) -> None:
    frames = talk.write(4 * MTU, skip=[1])
    talk.ack(messages=1)
    report = talk.audit()
    assert broken(report) == [(frames[1], Rule.PSN_CONTINUITY)]
    assert (report.flows[0].stats.gaps, report.flows[0].stats.missing) == (1, 1)


def test_a_gap_that_nobody_acknowledged_is_a_loss(talk: Conversation) -> None:
    talk.write(4 * MTU, skip=[1])
    report = talk.audit()
    assert broken(report) == []
    assert report.flows[0].stats.missing == 1


def test_an_ack_of_what_was_never_sent(talk: Conversation) -> None:
    frame = talk.ack(talk.psn)
    talk.write(MTU)
    talk.ack(messages=1)
    assert broken(talk.audit()) == [(frame, Rule.ACK_UNSENT)]


def test_a_nak_that_passes_over_the_hole(talk: Conversation) -> None:
    first = talk.psn
    packets = talk.packets_of_write(4 * MTU)
    for opcode, extensions, payload, psn in (packets[0], packets[2], packets[3]):
        talk.request(opcode, *extensions, payload=payload, psn=psn)
    frame = talk.nak(first + 2)
    assert broken(talk.audit()) == [(frame, Rule.NAK_EXPECTED)]


def test_a_nak_of_what_was_acknowledged(talk: Conversation) -> None:
    talk.write(2 * MTU)
    talk.ack(talk.psn - 2)
    frame = talk.nak(talk.psn - 4)
    assert broken(talk.audit()) == [(frame, Rule.NAK_EXPECTED)]


def test_a_nak_with_nothing_behind_it(talk: Conversation) -> None:
    talk.write(2 * MTU)
    frame = talk.nak(talk.psn - 1)
    assert broken(talk.audit()) == [(frame, Rule.NAK_EXPECTED)]


def test_a_nak_of_the_future(talk: Conversation) -> None:
    frame = talk.nak(talk.psn + 1)
    assert broken(talk.audit()) == [(frame, Rule.NAK_EXPECTED)]


def resend(talk: Conversation, psns: list[int], size: int) -> list[int]:
    """Send a WRITE of that size, have its second packet NAKed, and send those of its packets again."""
    packets = talk.packets_of_write(size)
    for opcode, extensions, payload, psn in packets:
        talk.request(opcode, *extensions, payload=payload, psn=psn)
    talk.nak(packets[1][3])
    again = [packets[index] for index in psns]
    return [talk.request(opcode, *ext, payload=payload, psn=psn) for opcode, ext, payload, psn in again]


def test_a_retransmission_from_the_naked_psn_is_go_back_n(talk: Conversation) -> None:
    resend(talk, [1, 2, 3, 4], 5 * MTU)
    talk.ack(messages=1)
    report = talk.audit()
    assert broken(report) == []
    stats = report.flows[0].stats
    assert (stats.restarts, stats.restarts_after_nak, stats.retransmitted) == (1, 1, 4)
    assert (stats.duplicates, stats.go_back_n) == (4, "followed")


def test_a_retransmission_after_a_timeout_is_go_back_n(talk: Conversation) -> None:
    packets = talk.packets_of_write(3 * MTU)
    for opcode, extensions, payload, psn in [*packets, *packets]:
        talk.request(opcode, *extensions, payload=payload, psn=psn)
    stats = (report := talk.audit()).flows[0].stats
    assert broken(report) == []
    assert (stats.restarts, stats.restarts_after_nak, stats.go_back_n) == (1, 0, "followed")


def test_the_first_packets_go_again_where_their_acknowledgement_was_lost() -> None:
    talk = Conversation()
    packets = talk.packets_of_write(2 * MTU)
    for _ in range(2):
        for opcode, extensions, payload, psn in packets:
            talk.request(opcode, *extensions, payload=payload, psn=psn)
        talk.ack(msn=1)
    stats = (report := talk.audit()).flows[0].stats
    assert broken(report) == []
    assert (stats.restarts, stats.retransmitted, stats.go_back_n) == (1, 2, "followed")


def test_a_retransmission_that_starts_elsewhere(talk: Conversation) -> None:
    frame, *_ = resend(talk, [2, 3, 4], 5 * MTU)
    report = talk.audit()
    assert broken(report) == [(frame, Rule.GO_BACK_N)]
    assert report.flows[0].stats.go_back_n == "broken"


def test_a_retransmission_that_leaves_something_out(talk: Conversation) -> None:
    _, frame = resend(talk, [1, 4], 5 * MTU)
    report = talk.audit()
    assert broken(report) == [(frame, Rule.GO_BACK_N)]
    assert report.flows[0].stats.missing == 2


def test_a_selective_repeat(talk: Conversation) -> None:
    resend(talk, [1], 5 * MTU)
    frame, *_ = talk.write(MTU)
    assert broken(talk.audit()) == [(frame, Rule.GO_BACK_N)]


def test_a_retransmission_may_skip_what_was_acknowledged_meanwhile(talk: Conversation) -> None:
    first = talk.psn
    resend(talk, [1, 2], 5 * MTU)
    talk.ack(first + 3)
    opcode, extensions, payload = Opcode.RC_WRITE_LAST, (), bytes([5]) * MTU
    talk.request(opcode, *extensions, payload=payload, psn=first + 4)
    assert broken(talk.audit()) == []


def test_behind_a_loss_a_retransmission_with_holes_is_not_judged(talk: Conversation) -> None:
    """The server's side: the second packet never came, and of the retransmission the third was lost as well."""
    packets = talk.packets_of_write(5 * MTU)
    for index in (0, 2, 3, 4):
        opcode, extensions, payload, psn = packets[index]
        talk.request(opcode, *extensions, payload=payload, psn=psn)
    talk.nak(packets[1][3])
    for index in (1, 3, 4):
        opcode, extensions, payload, psn = packets[index]
        talk.request(opcode, *extensions, payload=payload, psn=psn)
    talk.ack(messages=1)
    report = talk.audit()
    assert broken(report) == []
    stats = report.flows[0].stats
    assert (stats.missing, stats.refilled, stats.go_back_n) == (2, 1, "followed")


def test_a_repeated_psn_with_another_length(talk: Conversation) -> None:
    talk.request(Opcode.RC_SEND_ONLY, payload=bytes(8))
    frame = talk.request(Opcode.RC_SEND_ONLY, payload=bytes(12), psn=talk.psn - 1)
    assert broken(talk.audit()) == [(frame, Rule.RETRANSMISSION)]


def test_msn_that_decreases(talk: Conversation) -> None:
    frame = talk.ack(msn=1)
    assert broken(talk.audit()) == [(frame, Rule.MSN)]


def test_msn_may_wrap() -> None:
    talk = Conversation()
    talk.msn = (1 << 24) - 1
    talk.write(MTU)
    talk.ack()
    talk.write(MTU)
    talk.ack(msn=0)
    assert broken(talk.audit()) == []


def test_a_read_takes_a_psn_for_every_packet_of_its_response(talk: Conversation) -> None:
    first = talk.psn
    talk.request(Opcode.RC_READ_REQUEST, Reth(0, 1, 3 * MTU))
    for index, opcode in enumerate(
        (Opcode.RC_READ_RESPONSE_FIRST, Opcode.RC_READ_RESPONSE_MIDDLE, Opcode.RC_READ_RESPONSE_LAST)
    ):
        aeth = () if index == 1 else (Aeth(0x1F, 3),)
        bth = Bth(opcode, Psn(first + index), CLIENT_QP)
        talk.add(talk.to_client, pack_packet(bth, *aeth, payload=bytes(MTU)))
    talk.psn = first + 3
    talk.write(MTU)
    talk.ack(msn=4)
    report = talk.audit()
    assert broken(report) == []
    assert report.flows[0].stats.gaps == 0
    assert report.flows[1].carried.read_bytes == 3 * MTU


def test_a_read_response_that_goes_on_after_its_end(talk: Conversation) -> None:
    first = talk.psn
    talk.request(Opcode.RC_READ_REQUEST, Reth(0, 1, 4 * MTU))
    only = Bth(Opcode.RC_READ_RESPONSE_ONLY, Psn(first), CLIENT_QP)
    talk.add(talk.to_client, pack_packet(only, Aeth(0x1F, 3), payload=bytes(MTU)))
    middle = Bth(Opcode.RC_READ_RESPONSE_MIDDLE, Psn(first + 1), CLIENT_QP)
    frame = talk.add(talk.to_client, pack_packet(middle, payload=bytes(MTU)))
    assert broken(talk.audit()) == [(frame, Rule.OPCODE_SEQUENCE)]
