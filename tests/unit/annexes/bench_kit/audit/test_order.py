"""Reordered packets, and what looks alike: retransmissions of packets that were lost before the capture."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from emulator.annexes.bench_kit.audit.flow import FrameRule
from emulator.annexes.bench_kit.audit.report import AuditReport
from emulator.roce.wire.opcodes import Opcode
from tests.support.roce_capture import MTU, Conversation, broken


def arrive(talk: Conversation, order: Sequence[int | str], *, first_psn: int | None = None) -> list[int]:
    """Packets of a WRITE by their index, and "nakN": a NAK of packet N; returns the frame numbers."""
    packets = talk.packets_of_write(8 * MTU)
    frames = []
    for one in order:
        if isinstance(one, str):
            frames.append(talk.nak(packets[int(one.removeprefix("nak"))][3]))
        else:
            frames += talk.send(packets, one)
    return frames


def counted(report: AuditReport) -> tuple[int, int, int, int]:
    """Reordered, extent, missing, resent."""
    stats = report.flows[0].stats
    return stats.reordered, stats.reordering_extent, stats.missing, stats.retransmitted


@pytest.mark.parametrize(
    ("order", "late", "extent"),
    [
        ([0, 2, 1, 3, 4, 5, 6, 7], [2], 1),
        ([0, 2, 3, 4, 1, 5, 6, 7], [4], 3),
        ([0, 3, 1, 2, 4, 5, 6, 7], [2, 3], 2),
        ([0, 3, 2, 1, 4, 5, 6, 7], [2, 3], 2),
        ([0, 1, 2, 3, 4, 5, 7, 6], [7], 1),  # nothing follows
        ([0, 2, 1, 3, 5, 4, 6, 7], [2, 5], 1),
    ],
)
@pytest.mark.parametrize("first_psn", [100, (1 << 24) - 9])
def test_packets_that_arrive_late_are_reordered(order: list[int], late: list[int], extent: int, first_psn: int) -> None:
    talk = Conversation(first_psn=first_psn)
    talk.write(2 * MTU)
    talk.ack(messages=1)
    frames = arrive(talk, order)
    talk.ack(messages=1)
    report = talk.audit()
    assert broken(report) == [(frames[place], FrameRule.PACKET_ORDER) for place in late]
    assert counted(report) == (len(late), extent, 0, 0)
    assert report.flows[0].stats.go_back_n == "none"
    assert report.flows[0].messages.sizes == {2 * MTU: 1, 8 * MTU: 1}


@pytest.mark.parametrize(
    ("order", "missing", "resent"),
    [
        ([0, 2, "nak1", 1, 2, 3, 4, 5, 6, 7], 1, 2),
        ([0, 2, 3, 1, 2, 3, 4, 5, 6, 7], 1, 3),  # after a timeout
        ([0, 2, "nak1", 1, 3, 4, 5, 6, 7], 2, 1),  # packet 2 of the retransmission is lost, too
        ([0, 1, 3, 1, 2, 4, 5, 6, 7], 2, 2),  # goes back further, and packet 3 is lost
    ],
)
def test_packets_that_are_sent_again_are_not_reordered(
    talk: Conversation, order: list[int | str], missing: int, resent: int
) -> None:
    arrive(talk, order)
    report = talk.audit()
    assert broken(report) == []
    assert counted(report) == (0, 0, missing, resent)


def test_a_receiver_that_asks_for_a_late_packet_gets_all_from_there_again(talk: Conversation) -> None:
    frames = arrive(talk, [0, 2, 1, 3, "nak1", 1, 2, 3, 4, 5, 6, 7])
    talk.ack(messages=1)
    report = talk.audit()
    assert broken(report) == [(frames[2], FrameRule.PACKET_ORDER)]
    assert counted(report) == (1, 1, 0, 3)
    assert report.flows[0].stats.go_back_n == "followed"


def test_a_late_packet_and_a_loss_beside_it(talk: Conversation) -> None:
    frames = arrive(talk, [0, 4, 3, 5])
    report = talk.audit()
    assert broken(report) == [(frames[2], FrameRule.PACKET_ORDER)]
    assert counted(report) == (1, 1, 2, 0)


def test_packets_of_different_paths_may_overtake_each_other(talk: Conversation) -> None:
    path = talk.to_server
    packets = talk.packets_of_write(3 * MTU)
    for index, port in ((0, 50_001), (2, 50_002), (1, 50_001)):
        talk.to_server = replace(path, source_port=port)
        talk.send(packets, index)
    talk.ack(messages=1)
    report = talk.audit()
    assert broken(report) == []
    assert counted(report) == (1, 1, 0, 0)


def test_without_responses_a_late_packet_is_counted_but_may_have_been_asked_for() -> None:
    talk = Conversation()
    arrive(talk, [0, 2, 1, 3])
    report = talk.audit()
    assert broken(report) == []
    assert counted(report) == (1, 1, 0, 0)


def test_an_unreliable_connection_sends_nothing_again() -> None:
    talk = Conversation()
    frames = [talk.request(Opcode.UC_SEND_ONLY, payload=bytes(8), psn=psn) for psn in (1, 2, 5, 4)]
    report = talk.audit()
    assert broken(report) == [(frames[3], FrameRule.PACKET_ORDER)]
    assert counted(report) == (1, 1, 1, 0)


def test_read_responses_that_arrive_late_are_reordered(talk: Conversation) -> None:
    psn = talk.psn
    talk.read(4)
    frames = talk.respond(psn, 4, only=[0, 2, 1, 3])
    report = talk.audit()
    assert broken(report) == [(frames[2], FrameRule.PACKET_ORDER)]
    assert counted(report)[:2] == (1, 1)


def test_the_response_to_a_repeated_read_is_not_reordered(talk: Conversation) -> None:
    psn = talk.psn
    talk.read(4)
    talk.respond(psn, 4, only=[0, 2, 3])  # the second is lost
    talk.read(3, psn=psn + 1, address=MTU)
    talk.respond(psn + 1, 3, only=[0, 2])
    report = talk.audit()
    assert FrameRule.PACKET_ORDER not in dict(map(reversed, broken(report)))
    assert counted(report)[0] == 0


def test_acks_that_arrive_late_are_reordered(talk: Conversation) -> None:
    for _ in range(2):
        talk.write(MTU)
    talk.ack(msn=4)
    frame = talk.ack(talk.psn - 2, msn=3)
    assert broken(talk.audit()) == [(frame, FrameRule.PACKET_ORDER)]
