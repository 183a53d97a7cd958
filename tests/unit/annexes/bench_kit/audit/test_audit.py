"""Whole audits: correct connections, captures that start late, unreliable datagrams."""

from __future__ import annotations

import dataclasses

import pytest

from emulator.annexes.bench_kit.audit.audit import pair
from emulator.annexes.bench_kit.audit.collect import Collector
from emulator.annexes.bench_kit.audit.link import CapturedFrame
from emulator.annexes.bench_kit.audit.rules import FrameRule
from emulator.roce.connection.messages import Message, Verb
from emulator.roce.multipath.wire import SelectiveAck, write_header
from emulator.roce.wire.headers import Bth, Deth
from emulator.roce.wire.icrc import UdpPath, icrc
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.packet import pack_icrc, pack_packet
from emulator.roce.wire.psn import Psn
from tests.support.roce_capture import (
    CLIENT_QP,
    ETHERNET,
    ETHERNET_BYTES,
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
    assert [one.rule for one in talk.audit().violations] == [FrameRule.ICRC]


@pytest.mark.parametrize("is_server", [False, True])
def test_a_capture_can_have_one_direction_only(is_server: bool) -> None:
    source = bytes([10, 0, 0, 2 if is_server else 1])
    start = ETHERNET_BYTES + 12
    frames = [one for one in conversation().captured() if one.data[start : start + 4] == source]
    report = audit_frames(frames)
    assert report.violations == ()
    (flow,) = report.flows
    assert flow.answers is None
    assert flow.carried.acks == (3 if is_server else 0)
    assert any("without the requests" in note for note in report.notes) is is_server


def test_queue_pairs_between_the_same_hosts_are_told_apart_by_their_psns() -> None:
    talks = [Conversation(first_psn=psn) for psn in (100, 1_000_000, 104)]
    frames: list[bytes] = []
    for qp, talk in enumerate(talks, 0x100):
        for _ in range(qp - 0xFF):
            talk.write(2 * MTU)
            talk.ack(messages=1)
        frames += [with_qp(data, qp if data[ETHERNET_BYTES + 15] == 1 else 0x200 - qp) for data in talk.frames]
    captured = [CapturedFrame(number, number, ETHERNET, data) for number, data in enumerate(frames, 1)]
    report = audit_frames(captured)
    assert report.violations == ()
    answered = {one.flow.key.dest_qp: one.answers.acks for one in report.flows if one.answers}
    assert answered == {0x100: 1, 0x101: 2, 0x102: 3}


def test_queue_pairs_with_the_same_psns_are_told_apart_by_their_ports() -> None:
    talks = [Conversation() for _ in range(2)]
    frames: list[bytes] = []
    for qp, talk in enumerate(talks):
        port = 50_001 + qp
        talk.to_server = dataclasses.replace(talk.to_server, source_port=port)
        talk.to_client = dataclasses.replace(talk.to_client, source_port=port)
        talk.write(2 * MTU)
        talk.ack(messages=1 + qp)
    for packet in range(3):
        for qp, talk in enumerate(talks):
            data = talk.frames[packet]
            frames.append(with_qp(data, 0x200 - qp if packet == 2 else 0x100 + qp))
    report = audit_frames(CapturedFrame(number, number, ETHERNET, data) for number, data in enumerate(frames, 1))
    answered = {one.flow.key.dest_qp: one.answered_by for one in report.flows if one.answered_by}
    assert answered == {0x100: "10.0.0.2 > 10.0.0.1 QP 0x200", 0x101: "10.0.0.2 > 10.0.0.1 QP 0x1ff"}


def with_qp(frame: bytes, qp: int) -> bytes:
    """The same frame to another queue pair, with the ICRC corrected."""
    datagram = bytearray(frame[ETHERNET_BYTES:])
    datagram[33:36] = qp.to_bytes(3, "big")
    path = UdpPath(bytes(datagram[12:16]), bytes(datagram[16:20]), int.from_bytes(datagram[20:22], "big"))
    right = icrc(path, bytes(datagram[28:-4]), ip_id=int.from_bytes(datagram[4:6], "big"))
    return frame[:ETHERNET_BYTES] + bytes(datagram[:-4]) + pack_icrc(right)


def test_responses_that_name_psns_before_they_were_sent_match_nothing() -> None:
    talk = Conversation()
    talk.ack(talk.psn)
    talk.write(MTU)
    collector = Collector(port=4791)
    for frame in talk.captured():
        collector.add(frame)
    assert pair(collector.flows.values()) == {}


def test_requests_have_at_most_one_flow_of_responses() -> None:
    talk = conversation()
    twin = with_qp(talk.frames[-1], CLIENT_QP + 1)
    collector = Collector(port=4791)
    for number, data in enumerate([*talk.frames, twin], 1):
        collector.add(CapturedFrame(number, number, ETHERNET, data))
    pairs = pair(collector.flows.values())
    assert [(one.dest_qp, answers.key.dest_qp) for one, answers in pairs.items()] == [(SERVER_QP, CLIENT_QP)]
