"""Rules on single packets, each violated once in a capture made by hand; truncated frames."""

import dataclasses

import pytest

from emulator.annexes.bench_kit.audit.flow import FrameRule
from emulator.errors import InputError
from emulator.roce.wire.headers import Aeth, Bth
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.packet import CNP_PAYLOAD, pack_packet
from emulator.roce.wire.psn import Psn
from tests.support.roce_capture import (
    CLIENT_QP,
    MTU,
    SERVER_QP,
    UDP_HEADERS,
    Conversation,
    audit_frames,
    broken,
    conversation,
)


def test_a_capture_of_headers_only_is_checked_without_icrc() -> None:
    frames = [dataclasses.replace(frame, data=frame.data[: UDP_HEADERS + 28]) for frame in conversation().captured()]
    report = audit_frames(frames)
    assert report.violations == ()
    assert report.flows[0].flow.icrc_unchecked == 6  # the last ones, of one byte, are whole
    assert report.flows[0].messages.sizes == {2 * MTU + 1: 3}
    assert report.notes == ("6 frames captured in part: ICRCs not checked",)


def test_frames_truncated_within_the_headers_are_only_counted() -> None:
    for length in range(UDP_HEADERS + 28):
        frames = [dataclasses.replace(frame, data=frame.data[:length]) for frame in conversation().captured()]
        assert audit_frames(frames).violations == ()


def test_a_capture_of_too_many_flows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulator.annexes.bench_kit.audit.collect.MAX_FLOWS", 1)
    with pytest.raises(InputError, match="more than 1 flows: cut it"):
        audit_frames(conversation().captured())


def test_icrc(talk: Conversation) -> None:
    frame = talk.request(Opcode.RC_SEND_ONLY, payload=b"abcd", crc=0x12345678)
    talk.ack(messages=1)
    report = talk.audit()
    assert broken(report) == [(frame, FrameRule.ICRC)]
    assert report.flows[0].flow.icrc_bad == 1


def test_transport_version(talk: Conversation) -> None:
    def change(bth: Bth) -> None:
        bth.version = 1

    frame = talk.request(Opcode.RC_SEND_ONLY, payload=b"abcd", change=change)
    assert broken(talk.audit()) == [(frame, FrameRule.TRANSPORT_VERSION)]


def test_p_key(talk: Conversation) -> None:
    def change(bth: Bth) -> None:
        bth.p_key = 0x8001

    frame = talk.request(Opcode.RC_SEND_ONLY, payload=b"abcd", change=change)
    talk.ack(messages=1)
    assert broken(talk.audit()) == [(frame, FrameRule.P_KEY)]


def test_the_p_key_of_a_limited_member_is_accepted(talk: Conversation) -> None:
    def change(bth: Bth) -> None:
        bth.p_key = 0x7FFF

    talk.request(Opcode.RC_SEND_ONLY, payload=b"abcd", change=change)
    assert broken(talk.audit()) == []


@pytest.mark.parametrize("opcode", [0x15, 0x1F, 0x2C, 0x70, 0x9F])
def test_a_reserved_opcode_is_malformed(talk: Conversation, opcode: int) -> None:
    packet = pack_packet(Bth(opcode, Psn(talk.psn), SERVER_QP), payload=bytes(4))
    assert broken_by(talk, packet) == FrameRule.MALFORMED


@pytest.mark.parametrize("opcode", [0x44, 0xA4, 0xC1, 0xE0])
def test_other_transport_services_are_only_noted(talk: Conversation, opcode: int) -> None:
    talk.add(talk.to_server, pack_packet(Bth(opcode, Psn(5), SERVER_QP), payload=bytes(4)))
    report = talk.audit()
    assert broken(report) == []
    assert any(f"{opcode:#04x}" in note for note in report.notes)


def test_headers_that_do_not_fit_are_malformed(talk: Conversation) -> None:
    assert broken_by(talk, pack_packet(Bth(Opcode.RC_WRITE_ONLY, Psn(talk.psn), SERVER_QP))) == FrameRule.MALFORMED


def test_a_pad_that_is_longer_than_the_payload_is_malformed(talk: Conversation) -> None:
    bth = Bth(Opcode.RC_SEND_ONLY, Psn(talk.psn), SERVER_QP, pad=3)
    assert broken_by(talk, bth.pack()) == FrameRule.MALFORMED


def test_payload_behind_an_ack_is_malformed(talk: Conversation) -> None:
    packet = pack_packet(Bth(Opcode.RC_ACK, Psn(talk.psn - 1), SERVER_QP), Aeth(0x1F, 2), payload=bytes(4))
    assert broken_by(talk, packet) == FrameRule.MALFORMED


def test_a_datagram_too_short_for_any_packet_is_malformed(talk: Conversation) -> None:
    assert broken_by(talk, bytes(8)) == FrameRule.MALFORMED


def broken_by(talk: Conversation, packet: bytes) -> FrameRule:
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
    assert broken(report) == [(frame, FrameRule.CNP_SHAPE)]
    assert problem in report.violations[0].problem
    assert report.flows[1].carried.cnps == 1
