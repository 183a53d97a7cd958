"""Whole audits: correct connections, captures that start late, unreliable datagrams."""

from __future__ import annotations

import pytest

from emulator.audit.rules import Rule
from emulator.roce.headers import Bth, Deth
from emulator.roce.messages import Message, Verb
from emulator.roce.multipath.wire import SelectiveAck, write_header
from emulator.roce.opcodes import Opcode
from emulator.roce.packet import pack_packet
from emulator.roce.psn import Psn
from tests.support.roce_capture import (
    MTU,
    SERVER_QP,
    Conversation,
    audit_frames,
    broken,
    conversation,
)


@pytest.mark.parametrize("is_v6", [False, True])
@pytest.mark.parametrize("first_psn", [100, (1 << 24) - 3])
def test_a_correct_connection_has_no_violations(is_v6: bool, first_psn: int) -> None:
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


def test_a_capture_can_start_in_mid_connection() -> None:
    talk = conversation()
    for start in range(12):
        report = audit_frames(list(talk.captured())[start:])
        assert report.violations == (), f"from frame {start + 1}"


def test_unreliable_datagrams_are_counted_and_can_jump_in_psn() -> None:
    talk = Conversation()
    for psn in (5, 900, 3):
        bth = Bth(Opcode.UD_SEND_ONLY, Psn(psn), SERVER_QP)
        talk.add(talk.to_server, pack_packet(bth, Deth(1, 2), payload=bytes(64)))
    report = talk.audit()
    assert report.violations == ()
    assert (report.flows[0].data_frames, report.flows[0].messages.sizes) == (3, {64: 3})


def test_the_multipath_profile_is_named_and_its_order_not_judged() -> None:
    talk = Conversation()
    for psn in (104, 100, 107, 101):
        write = write_header(Message(Verb.WRITE, 64), Psn(psn), 0, 64, dest_qp=SERVER_QP, path_mtu=MTU)
        talk.add(talk.to_server, write + bytes(64))
    talk.add(talk.to_client, SelectiveAck(Psn(101), 0x1F, 2, b"\x14\0\0\0").pack(7))
    report = talk.audit()
    assert broken(report) == []
    assert "2 flows of Charkha's multipath profile" in "\n".join(report.notes)
    talk.add(talk.to_client, SelectiveAck(Psn(101), 0x1F, 2).pack(7), crc=1)
    assert [one.rule for one in talk.audit().violations] == [Rule.ICRC]
