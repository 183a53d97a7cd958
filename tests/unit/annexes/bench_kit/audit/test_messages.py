"""Messages are reassembled; rules on their packets, each violated once."""

import pytest

from emulator.annexes.bench_kit.audit.flow import CapturedPacket, FrameRule
from emulator.annexes.bench_kit.audit.messages import (
    Read,
    Reads,
    SentPacket,
    assemble,
    path_mtu,
    path_mtu_of_reads,
    psns_taken,
    repeat_problem,
    response_problem,
)
from emulator.roce.wire.headers import Reth
from emulator.roce.wire.opcodes import MEANINGS, Opcode
from emulator.roce.wire.psn import wrap
from tests.support.roce_capture import MTU, STEP_NS, Conversation, broken, conversation


@pytest.mark.parametrize(
    ("requests", "at", "rule"),
    [
        ([(Opcode.RC_WRITE_MIDDLE, MTU)], 0, FrameRule.OPCODE_SEQUENCE),
        ([(Opcode.RC_SEND_FIRST, MTU), (Opcode.RC_SEND_ONLY, 4)], 1, FrameRule.OPCODE_SEQUENCE),
        ([(Opcode.RC_SEND_FIRST, MTU), (Opcode.RC_WRITE_LAST, 4)], 1, FrameRule.OPCODE_SEQUENCE),
        (
            [(Opcode.RC_SEND_FIRST, MTU), (Opcode.RC_SEND_MIDDLE, MTU - 4), (Opcode.RC_SEND_LAST, 4)],
            1,
            FrameRule.PATH_MTU,
        ),
        ([(Opcode.RC_SEND_FIRST, MTU), (Opcode.RC_SEND_LAST, 0)], 1, FrameRule.PATH_MTU),
        ([(Opcode.RC_SEND_FIRST, MTU), (Opcode.RC_SEND_LAST, MTU + 1)], 1, FrameRule.PATH_MTU),
        ([(Opcode.RC_SEND_ONLY, MTU + 4)], 0, FrameRule.PATH_MTU),
    ],
    ids=[
        "a middle without a first",
        "a first before the last message ended",
        "a message that changes its operation",
        "a middle that is not one path MTU",
        "an empty last",
        "a last above the path MTU",
        "an only above the path MTU",
    ],
)
def test_packets_of_a_message_have_an_order_and_lengths(
    talk: Conversation, requests: list[tuple[Opcode, int]], at: int, rule: FrameRule
) -> None:
    frames = [talk.request(opcode, payload=bytes(size)) for opcode, size in requests]
    assert broken(talk.audit()) == [(frames[at], rule)]


def test_a_message_shorter_than_its_reth(talk: Conversation) -> None:
    *_, last = talk.write(2 * MTU, announced=2 * MTU + 1)
    assert broken(talk.audit()) == [(last, FrameRule.MESSAGE_LENGTH)]


def packet(opcode: Opcode, psn: int, *, size: int = 0, length: int | None = None, address: int = 0) -> CapturedPacket:
    return CapturedPacket(
        frame=psn,
        time_ns=None,
        opcode=opcode,
        meaning=MEANINGS[opcode],
        psn=wrap(psn),
        payload_bytes=size,
        syndrome=None,
        msn=0,
        reth_bytes=length,
        reth_address=address,
    )


def sent(
    opcode: Opcode, payload_bytes: int, *, psn: int = 0, reth_bytes: int | None = None, psns: int = 1
) -> SentPacket:
    return SentPacket(packet(opcode, psn, size=payload_bytes, length=reth_bytes), psns)


def packets(*sents: SentPacket) -> dict[int, SentPacket]:
    return {one.packet.psn: one for one in sents}


def test_the_path_mtu_is_the_most_frequent_valid_length() -> None:
    lengths = [1024, 1024, 4096, 1000, 1000, 1000]
    found = [sent(Opcode.RC_SEND_MIDDLE, length, psn=psn).packet for psn, length in enumerate(lengths)]
    assert path_mtu(found) == 1024


def test_of_two_equally_frequent_lengths_the_longer_is_the_path_mtu() -> None:
    assert path_mtu([sent(Opcode.RC_SEND_FIRST, length).packet for length in (4096, 256)]) == 4096


def test_last_and_only_packets_do_not_show_the_path_mtu() -> None:
    assert path_mtu([sent(Opcode.RC_SEND_LAST, 1024).packet, sent(Opcode.RC_SEND_ONLY, 1024).packet]) is None


def test_messages_are_counted_by_their_length() -> None:
    found = assemble(
        packets(
            sent(Opcode.RC_SEND_FIRST, MTU, psn=0),
            sent(Opcode.RC_SEND_LAST, 5, psn=1),
            sent(Opcode.RC_SEND_ONLY, 5, psn=2),
            sent(Opcode.RC_WRITE_ONLY, MTU, psn=3, reth_bytes=MTU),
            sent(Opcode.RC_READ_REQUEST, 0, psn=4, reth_bytes=3 * MTU, psns=3),
            sent(Opcode.RC_SEND_ONLY, 0, psn=7),
        ),
        mtu=MTU,
        flow="f",
    )
    assert found.sizes == {MTU + 5: 1, 5: 1, MTU: 1, 3 * MTU: 1, 0: 1}
    assert (found.partial, found.violations) == (0, [])


@pytest.mark.parametrize("begin", [sent(Opcode.RC_SEND_MIDDLE, MTU, psn=6), sent(Opcode.RC_SEND_FIRST, MTU, psn=5)])
def test_a_message_of_which_a_packet_is_missing_is_partial_without_a_violation(begin: SentPacket) -> None:
    found = assemble(packets(begin, sent(Opcode.RC_SEND_LAST, 7, psn=7)), mtu=MTU, flow="f")
    assert (found.sizes, found.partial, found.violations) == ({}, 1, [])


def test_without_a_path_mtu_only_impossible_lengths_are_violations() -> None:
    both = packets(sent(Opcode.RC_SEND_ONLY, 4096), sent(Opcode.RC_SEND_FIRST, 1000, psn=1))
    found = assemble(both, mtu=None, flow="f")
    (violation,) = found.violations
    assert violation.problem == "FIRST has 1000 bytes, which is not a path MTU"
    (longer,) = assemble(packets(sent(Opcode.RC_SEND_ONLY, 4100)), mtu=None, flow="f").violations
    assert (longer.rule, longer.problem) == (FrameRule.PATH_MTU, "ONLY has 4100 bytes, more than 4096")


def test_congestion_notifications_count_for_the_requests_they_concern() -> None:
    talk = conversation()
    for after_ns in (0, 70_000, 4_001):
        talk.cnp()
        talk.frames += [b""] * (after_ns // STEP_NS)
    talk.cnp()
    report = talk.audit()
    assert report.violations == ()
    data = next(one for one in report.flows if one.data_frames)
    assert data.answers is not None
    assert (data.answers.cnps, data.answers.smallest_cnp_gap_ns) == (4, 1_000)


def test_msn_that_decreases(talk: Conversation) -> None:
    frame = talk.ack(msn=1)
    assert broken(talk.audit()) == [(frame, FrameRule.MSN)]


def test_the_msn_can_wrap() -> None:
    talk = Conversation()
    talk.msn = (1 << 24) - 1
    talk.write(MTU)
    talk.ack()
    talk.write(MTU)
    talk.ack(msn=0)
    assert broken(talk.audit()) == []


def test_a_read_response_cannot_continue_after_its_end(talk: Conversation) -> None:
    first = talk.psn
    talk.read(4)
    talk.respond(first, 1)
    (frame,) = talk.respond(first, 4, only=[1])
    assert broken(talk.audit()) == [(frame, FrameRule.OPCODE_SEQUENCE)]


@pytest.mark.parametrize(
    ("syndrome", "naks", "rnr_naks"),
    [
        (0x60, {"sequence error": 1}, 0),
        (0x61, {"invalid request": 1}, 0),
        (0x7F, {"0x7f": 1}, 0),
        (0x40, {"0x40": 1}, 0),
        (0x2E, {}, 1),
    ],
)
def test_naks_are_counted_by_their_reason_and_receiver_not_ready_apart(
    talk: Conversation, syndrome: int, naks: dict[str, int], rnr_naks: int
) -> None:
    talk.ack(syndrome=syndrome)
    answers = talk.audit().flows[0].answers
    assert answers is not None
    assert (answers.acks, dict(answers.naks), answers.rnr_naks) == (2, naks, rnr_naks)


def test_a_repeated_read_response_is_counted_once() -> None:
    talk = Conversation()
    talk.request(Opcode.RC_READ_REQUEST, Reth(0, 1, 100))
    for _ in range(2):
        talk.respond(100, 1, sizes=[100])
    carried = talk.audit().flows[1].carried
    assert (carried.read_responses, carried.read_bytes) == (2, 100)


def test_one_notification_has_no_gap(talk: Conversation) -> None:
    talk.cnp()
    answers = talk.audit().flows[0].answers
    assert answers is not None
    assert (answers.cnps, answers.smallest_cnp_gap_ns) == (1, None)


def test_a_middle_of_a_read_response_has_the_path_mtu() -> None:
    talk = Conversation()
    talk.request(Opcode.RC_READ_REQUEST, Reth(0, 1, 2 * MTU + 8))
    frames = talk.respond(100, 3, sizes=[MTU, MTU - 4, 8])
    assert broken(talk.audit()) == [(frames[1], FrameRule.PATH_MTU)]


def read(psn: int, length: int, address: int = 0) -> CapturedPacket:
    return packet(Opcode.RC_READ_REQUEST, psn, length=length, address=address)


def send(psn: int) -> CapturedPacket:
    return packet(Opcode.RC_SEND_ONLY, psn)


@pytest.mark.parametrize(("length", "psns"), [(0, 1), (1, 1), (MTU, 1), (MTU + 1, 2), (10 * MTU, 10)])
def test_a_read_takes_a_psn_for_every_packet_of_its_response(length: int, psns: int) -> None:
    assert psns_taken([read(1, length), send(1 + psns)], MTU) == {1: psns}


def test_without_a_path_mtu_the_next_request_decides() -> None:
    assert psns_taken([read(1, 10_000), read(11, 10_000)], None) == {1: 10, 11: 3}


def test_without_a_path_mtu_a_step_that_fits_none_does_not_count() -> None:
    assert psns_taken([read(1, 10_000), send(8)], None) == {1: 3}


def test_the_path_mtu_is_the_one_that_most_steps_fit() -> None:
    requests = [read(1, 10_000), read(11, 10_000), read(21, 10_000), read(24, 10_000)]
    assert path_mtu_of_reads(requests) == 1024


def test_reads_of_one_packet_do_not_show_the_path_mtu() -> None:
    assert path_mtu_of_reads([read(1, 100), read(2, 100), send(3), send(4)]) is None


def test_the_read_that_takes_a_psn() -> None:
    reads = Reads()
    late, early = Read(10, 12, read(10, 2 * MTU)), Read(5, 8, read(5, 3 * MTU))
    for one in (late, early):
        reads.add(one)
    assert [reads.covering(psn) for psn in (4, 5, 7, 8, 10, 11, 12)] == [None, early, early, None, late, late, None]


FIRST = Read(5, 8, read(5, 3 * MTU - 10, address=0x1000))


@pytest.mark.parametrize(
    ("again", "psns"),
    [
        (read(5, 3 * MTU - 10, 0x1000), 3),
        (read(6, 2 * MTU - 10, 0x1000 + MTU), 2),
        (read(7, MTU - 10, 0x1000 + 2 * MTU), 1),
        (read(6, MTU, 0x1000 + MTU), 1),
    ],
)
def test_a_repeated_read_can_ask_for_any_part(again: CapturedPacket, psns: int) -> None:
    assert repeat_problem(again, again.psn, psns, read=FIRST, mtu=MTU) is None


def test_a_repeated_read_of_other_bytes() -> None:
    again = read(6, 2 * MTU - 10, 0x1000)
    expected = "it reads from 0x1000, but PSN 0x6 is that of 0x1400"
    assert repeat_problem(again, 6, 2, read=FIRST, mtu=MTU) == expected
    assert repeat_problem(again, 6, 2, read=FIRST, mtu=None) is None


def test_a_repeated_read_of_more_than_is_left() -> None:
    again = read(6, 3 * MTU - 10, 0x1000 + MTU)
    problem = repeat_problem(again, 6, 3, read=FIRST, mtu=MTU)
    assert problem == "it takes 3 PSNs, 2 are left of the READ in frame 5"


def test_another_request_with_a_psn_of_a_read() -> None:
    assert repeat_problem(send(6), 6, 1, read=FIRST, mtu=MTU) == "PSN 0x6 belongs to the READ in frame 5"


@pytest.mark.parametrize(
    ("opcode", "psn", "size"),
    [
        (Opcode.RC_READ_RESPONSE_FIRST, 5, MTU),
        (Opcode.RC_READ_RESPONSE_MIDDLE, 6, MTU),
        (Opcode.RC_READ_RESPONSE_ONLY, 6, MTU),
        (Opcode.RC_READ_RESPONSE_LAST, 7, MTU - 10),
        (Opcode.RC_READ_RESPONSE_ONLY, 7, MTU - 10),
    ],
)
def test_a_response_carries_the_bytes_of_its_psn(opcode: Opcode, psn: int, size: int) -> None:
    assert response_problem(packet(opcode, psn, size=size), psn, request=FIRST, mtu=MTU) is None


def test_a_response_that_ends_too_early() -> None:
    short = packet(Opcode.RC_READ_RESPONSE_LAST, 7, size=5)
    assert response_problem(short, 7, request=FIRST, mtu=MTU) == "it has 5 bytes, PSN 0x7 of the READ has 1014"
    assert response_problem(short, 7, request=FIRST, mtu=None) is None


def test_a_response_of_the_wrong_kind() -> None:
    atomic = SentPacket(packet(Opcode.RC_FETCH_ADD, 9))
    assert response_problem(packet(Opcode.RC_ATOMIC_ACK, 9), 9, request=atomic, mtu=MTU) is None
    problem = response_problem(packet(Opcode.RC_READ_RESPONSE_ONLY, 9), 9, request=atomic, mtu=MTU)
    assert problem == "read response to PSN 0x9, the atomic in frame 9"
    problem = response_problem(packet(Opcode.RC_ATOMIC_ACK, 4), 4, request=SentPacket(send(4)), mtu=MTU)
    assert problem == "atomic ack to PSN 0x4, the send in frame 4"
