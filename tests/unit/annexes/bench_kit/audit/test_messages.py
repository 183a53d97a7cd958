"""Messages are reassembled; rules on their packets, each violated once."""

from __future__ import annotations

import pytest

from emulator.annexes.bench_kit.audit.flow import CapturedPacket
from emulator.annexes.bench_kit.audit.messages import SentPacket, assemble, path_mtu
from emulator.annexes.bench_kit.audit.rules import FrameRule
from emulator.roce.wire.opcodes import MEANINGS, Opcode
from emulator.roce.wire.psn import Psn
from tests.support.roce_capture import MTU, Conversation, broken


def test_middle_without_first(talk: Conversation) -> None:
    frame = talk.request(Opcode.RC_WRITE_MIDDLE, payload=bytes(MTU))
    assert broken(talk.audit()) == [(frame, FrameRule.OPCODE_SEQUENCE)]


def test_first_before_the_last_message_ended(talk: Conversation) -> None:
    talk.request(Opcode.RC_SEND_FIRST, payload=bytes(MTU))
    frame = talk.request(Opcode.RC_SEND_ONLY, payload=bytes(4))
    assert broken(talk.audit()) == [(frame, FrameRule.OPCODE_SEQUENCE)]


def test_a_message_that_changes_its_operation(talk: Conversation) -> None:
    talk.request(Opcode.RC_SEND_FIRST, payload=bytes(MTU))
    frame = talk.request(Opcode.RC_WRITE_LAST, payload=bytes(4))
    assert broken(talk.audit()) == [(frame, FrameRule.OPCODE_SEQUENCE)]


def test_a_middle_that_is_not_one_path_mtu(talk: Conversation) -> None:
    talk.request(Opcode.RC_SEND_FIRST, payload=bytes(MTU))
    frame = talk.request(Opcode.RC_SEND_MIDDLE, payload=bytes(MTU - 4))
    talk.request(Opcode.RC_SEND_LAST, payload=bytes(4))
    assert broken(talk.audit()) == [(frame, FrameRule.PATH_MTU)]


@pytest.mark.parametrize("size", [0, MTU + 1])
def test_a_last_outside_its_bounds(talk: Conversation, size: int) -> None:
    talk.request(Opcode.RC_SEND_FIRST, payload=bytes(MTU))
    frame = talk.request(Opcode.RC_SEND_LAST, payload=bytes(size))
    assert broken(talk.audit()) == [(frame, FrameRule.PATH_MTU)]


def test_an_only_above_the_path_mtu(talk: Conversation) -> None:
    frame = talk.request(Opcode.RC_SEND_ONLY, payload=bytes(MTU + 4))
    assert broken(talk.audit()) == [(frame, FrameRule.PATH_MTU)]


def test_a_message_shorter_than_its_reth(talk: Conversation) -> None:
    *_, last = talk.write(2 * MTU, announced=2 * MTU + 1)
    assert broken(talk.audit()) == [(last, FrameRule.MESSAGE_LENGTH)]


def sent(
    opcode: Opcode, payload_bytes: int, *, psn: int = 0, reth_bytes: int | None = None, psns: int = 1
) -> SentPacket:
    packet = CapturedPacket(
        frame=psn + 1,
        time_ns=None,
        opcode=opcode,
        meaning=MEANINGS[opcode],
        psn=Psn(psn),
        payload_bytes=payload_bytes,
        syndrome=None,
        msn=0,
        reth_bytes=reth_bytes,
    )
    return SentPacket(packet, psns)


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


def test_a_message_whose_beginning_is_missing_is_partial() -> None:
    middle, last = sent(Opcode.RC_SEND_MIDDLE, MTU, psn=5), sent(Opcode.RC_SEND_LAST, 7, psn=6)
    found = assemble(packets(middle, last), mtu=MTU, flow="f")
    assert (found.sizes, found.partial, found.violations) == ({}, 1, [])


def test_a_lost_packet_makes_its_message_partial_without_a_violation() -> None:
    first, last = sent(Opcode.RC_SEND_FIRST, MTU, psn=5), sent(Opcode.RC_SEND_LAST, 7, psn=7)
    found = assemble(packets(first, last), mtu=MTU, flow="f")
    assert (found.sizes, found.partial, found.violations) == ({}, 1, [])


def test_without_a_path_mtu_only_impossible_lengths_are_violations() -> None:
    both = packets(sent(Opcode.RC_SEND_ONLY, 4096), sent(Opcode.RC_SEND_FIRST, 1000, psn=1))
    found = assemble(both, mtu=None, flow="f")
    (violation,) = found.violations
    assert violation.problem == "FIRST has 1000 bytes, which is not a path MTU"
    (longer,) = assemble(packets(sent(Opcode.RC_SEND_ONLY, 4100)), mtu=None, flow="f").violations
    assert (longer.rule, longer.problem) == (FrameRule.PATH_MTU, "ONLY has 4100 bytes, more than 4096")
