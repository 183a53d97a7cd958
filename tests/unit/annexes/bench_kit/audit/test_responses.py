"""ACKs, NAKs, READ responses and congestion notifications."""

from __future__ import annotations

import pytest

from emulator.annexes.bench_kit.audit.rules import FrameRule
from emulator.roce.wire.headers import Aeth, Bth, Reth
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.packet import pack_packet
from emulator.roce.wire.psn import Psn
from tests.support.roce_capture import CLIENT_QP, MTU, STEP_NS, Conversation, broken, conversation


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
    talk.request(Opcode.RC_READ_REQUEST, Reth(0, 1, 4 * MTU))
    only = Bth(Opcode.RC_READ_RESPONSE_ONLY, Psn(first), CLIENT_QP)
    talk.add(talk.to_client, pack_packet(only, Aeth(0x1F, 3), payload=bytes(MTU)))
    middle = Bth(Opcode.RC_READ_RESPONSE_MIDDLE, Psn(first + 1), CLIENT_QP)
    frame = talk.add(talk.to_client, pack_packet(middle, payload=bytes(MTU)))
    assert broken(talk.audit()) == [(frame, FrameRule.OPCODE_SEQUENCE)]


@pytest.mark.parametrize(
    ("syndrome", "name"), [(0x60, "sequence error"), (0x61, "invalid request"), (0x7F, "0x7f"), (0x40, "0x40")]
)
def test_naks_are_counted_by_their_reason(talk: Conversation, syndrome: int, name: str) -> None:
    talk.ack(syndrome=syndrome)
    answers = talk.audit().flows[0].answers
    assert answers is not None
    assert (answers.acks, dict(answers.naks), answers.rnr_naks) == (2, {name: 1}, 0)


def test_receiver_not_ready_is_counted_apart_from_naks(talk: Conversation) -> None:
    talk.ack(syndrome=0x2E)
    answers = talk.audit().flows[0].answers
    assert answers is not None
    assert (answers.acks, dict(answers.naks), answers.rnr_naks) == (2, {}, 1)


def test_a_repeated_read_response_is_counted_once() -> None:
    talk = Conversation()
    talk.request(Opcode.RC_READ_REQUEST, Reth(0, 1, 100))
    for _ in range(2):
        bth = Bth(Opcode.RC_READ_RESPONSE_ONLY, Psn(100), CLIENT_QP)
        talk.add(talk.to_client, pack_packet(bth, Aeth(0x1F, 1), payload=bytes(100)))
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
    frames = []
    for index, (opcode, size) in enumerate(
        [
            (Opcode.RC_READ_RESPONSE_FIRST, MTU),
            (Opcode.RC_READ_RESPONSE_MIDDLE, MTU - 4),
            (Opcode.RC_READ_RESPONSE_LAST, 8),
        ]
    ):
        aeth = () if index == 1 else (Aeth(0x1F, 1),)
        bth = Bth(opcode, Psn(100 + index), CLIENT_QP)
        frames.append(talk.add(talk.to_client, pack_packet(bth, *aeth, payload=bytes(size))))
    assert broken(talk.audit()) == [(frames[1], FrameRule.PATH_MTU)]
