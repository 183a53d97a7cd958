"""Rules on single packets, each violated once in a capture made by hand; truncated frames."""

import dataclasses
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.annexes.bench_kit.audit.collect import open_frame
from emulator.annexes.bench_kit.audit.datagram import Datagram, Skipped
from emulator.annexes.bench_kit.audit.flow import FrameRule
from emulator.annexes.bench_kit.audit.report import AuditReport
from emulator.errors import InputError
from emulator.roce.wire.headers import Aeth, Bth
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.packet import CNP_PAYLOAD, pack_packet
from emulator.roce.wire.psn import Psn
from tests.support.roce_capture import (
    CLIENT_QP,
    ETHERNET_BYTES,
    MTU,
    SERVER_QP,
    UDP_HEADERS,
    Conversation,
    audit_frames,
    broken,
    conversation,
    ethernet,
)

OUTER = bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2])
CONTROL_WORD = bytes(4)


def ip(protocol: int, payload: bytes, *, fragment: int = 0) -> bytes:
    """An IPv4 frame between two switches."""
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 1, fragment, 64, protocol, 0)
    return ethernet(header + OUTER[0] + OUTER[1] + payload)


def ip6(protocol: int, payload: bytes) -> bytes:
    return ethernet(struct.pack(">IHBB", 6 << 28, len(payload), protocol, 64) + bytes(32) + payload)


def udp(port: int, payload: bytes) -> bytes:
    return struct.pack(">HHHH", 55_555, port, 8 + len(payload), 0) + payload


def gre(protocol: int, payload: bytes, *, flags: int = 0, optional: bytes = b"") -> bytes:
    return struct.pack(">HH", flags, protocol) + optional + payload


def labels(*values: int) -> bytes:
    """A stack of MPLS labels, the last one marked as its bottom."""
    entries = (value << 12 | (place == len(values)) << 8 | 64 for place, value in enumerate(values, 1))
    return b"".join(struct.pack(">I", entry) for entry in entries)


def erspan_iii(frame: bytes, *, kind: int = 0, subheader: bytes = b"") -> bytes:
    return struct.pack(">HHIHH", 0x2000, 1, 0, 0, kind << 10 | bool(subheader)) + subheader + frame


def without_ethernet(frame: bytes) -> bytes:
    return frame[ETHERNET_BYTES:]


def mpls(payload: bytes) -> bytes:
    return bytes(12) + b"\x88\x47" + payload


SEQUENCE = {"flags": 0x1000, "optional": bytes(4)}
READ: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gre-ip": ("GRE", lambda frame: ip(47, gre(0x0800, without_ethernet(frame)))),
    "gre-ethernet": ("GRE", lambda frame: ip(47, gre(0x6558, frame))),
    "gre-options": ("GRE", lambda frame: ip(47, gre(0x6558, frame, flags=0xB000, optional=bytes(12)))),
    "gre-over-ipv6": ("GRE", lambda frame: ip6(47, gre(0x6558, frame))),
    "erspan-i": ("ERSPAN I", lambda frame: ip(47, gre(0x88BE, frame))),
    "erspan-ii": ("ERSPAN II", lambda frame: ip(47, gre(0x88BE, b"\x10\x01\0\1\0\0\0\1" + frame, **SEQUENCE))),
    "erspan-iii": ("ERSPAN III", lambda frame: ip(47, gre(0x22EB, erspan_iii(frame), **SEQUENCE))),
    "erspan-iii-subheader": (
        "ERSPAN III",
        lambda frame: ip(47, gre(0x22EB, erspan_iii(frame, subheader=bytes(8)), **SEQUENCE)),
    ),
    "erspan-iii-ip": (
        "ERSPAN III",
        lambda frame: ip(47, gre(0x22EB, erspan_iii(without_ethernet(frame), kind=2), **SEQUENCE)),
    ),
    "vxlan": ("VXLAN", lambda frame: ip(17, udp(4789, b"\x08\0\0\0\0\0\x64\0" + frame))),
    "vxlan-over-ipv6": ("VXLAN", lambda frame: ip6(17, udp(4789, b"\x08\0\0\0\0\0\x64\0" + frame))),
    "geneve": ("Geneve", lambda frame: ip(17, udp(6081, b"\x02\0\x65\x58\0\0\x64\0" + bytes(8) + frame))),
    "mpls-ip": ("MPLS", lambda frame: mpls(labels(100) + without_ethernet(frame))),
    "mpls-pseudowire": ("MPLS", lambda frame: mpls(labels(100, 200) + CONTROL_WORD + frame)),
    "mpls-pseudowire-without-control-word": ("MPLS", lambda frame: mpls(labels(100, 200) + frame)),
    "mpls-in-udp": ("MPLS", lambda frame: ip(17, udp(6635, labels(100) + without_ethernet(frame)))),
    "ip-in-ip": ("IP in IP", lambda frame: ip(4, without_ethernet(frame))),
    "vxlan-in-erspan": (
        "VXLAN in ERSPAN I",
        lambda frame: ip(47, gre(0x88BE, ip(17, udp(4789, b"\x08" + bytes(7) + frame)))),
    ),
}


def mirrored(talk: Conversation, wrap: Callable[[bytes], bytes], *only: int) -> AuditReport:
    """The audit of a conversation of which all frames, or only those with these numbers, are encapsulated."""
    talk.frames = [wrap(data) if number in (only or (number,)) else data for number, data in enumerate(talk.frames, 1)]
    return talk.audit()


@pytest.mark.parametrize("kind", READ)
def test_the_packets_inside_are_audited(kind: str) -> None:
    name, wrap = READ[kind]
    report = mirrored(conversation(), wrap)
    assert (report.roce_frames, broken(report)) == (12, [])
    assert report.flows[0].flow.key.label == "10.0.0.1 > 10.0.0.2 QP 0x11"
    assert report.flows[0].messages.sizes == {2 * MTU + 1: 3}
    assert report.notes == (f"12 frames read through {name}; addresses and CE marks are those of the packets inside",)


@pytest.mark.parametrize("kind", READ)
def test_violations_inside_are_found(kind: str) -> None:
    talk = conversation()
    frame = talk.ack(talk.psn)
    assert broken(mirrored(talk, READ[kind][1])) == [(frame, FrameRule.ACK_UNSENT)]


@pytest.mark.parametrize("kind", READ)
def test_a_frame_that_is_cut_before_the_packet_inside_is_counted(kind: str) -> None:
    wrap = READ[kind][1]
    whole = wrap(conversation().frames[0])
    start = len(whole) - len(without_ethernet(conversation().frames[0]))
    for length in range(start, start + 28):
        opened = open_frame(1, whole[:length], port=4791)
        assert (opened.found, opened.unread) == (Skipped.CUT, "")


UNREAD: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "macsec": ("MACsec", lambda frame: bytes(12) + b"\x88\xe5" + bytes(14) + frame),
    "esp": ("ESP", lambda frame: ip(50, bytes(8) + frame)),
    "esp-in-udp": ("ESP", lambda frame: ip(17, udp(4500, bytes(8) + frame))),
    "gre-1": ("GRE with flags 0x2081", lambda frame: ip(47, gre(0x880B, frame, flags=0x2081, optional=bytes(8)))),
    "gre-other": ("GRE with protocol 0x1234", lambda frame: ip(47, gre(0x1234, frame))),
    "erspan-iii-other": ("ERSPAN III with frame type 1", lambda frame: ip(47, gre(0x22EB, erspan_iii(frame, kind=1)))),
    "mpls-other": ("MPLS", lambda frame: mpls(labels(100) + b"\x10" + bytes(30))),
}


def missing_frame() -> tuple[Conversation, int]:
    """A conversation and the number of a frame without which it breaks a rule."""
    return conversation(), 2


@pytest.mark.parametrize(
    ("frame", "notes"),
    [
        pytest.param(bytes(12) + b"\x08\x06" + bytes(28), (), id="ARP"),
        pytest.param(ip(17, bytes(40), fragment=0x2000), ("1 IP fragment ignored",), id="a fragment of other hosts"),
        pytest.param(ip(47, bytes(40), fragment=0x2000), ("1 IP fragment ignored",), id="and one of GRE"),
        pytest.param(
            bytes(12) + b"\x89\x15" + bytes(60),
            ("1 frame of RoCE v1 (EtherType 0x8915) ignored: only RoCEv2 is audited",),
            id="RoCE v1",
        ),
    ],
)
def test_frames_that_can_hold_no_packet_of_the_flow_hide_nothing(frame: bytes, notes: tuple[str, ...]) -> None:
    talk, number = missing_frame()
    talk.frames[number - 1] = frame
    report = talk.audit()
    assert broken(report) == [(3, FrameRule.PSN_CONTINUITY)]
    assert report.notes == notes


@pytest.mark.parametrize("kind", UNREAD)
def test_what_may_be_in_an_unreadable_encapsulation_is_not_missing(kind: str) -> None:
    name, wrap = UNREAD[kind]
    talk, number = missing_frame()
    report = mirrored(talk, wrap, number)
    assert broken(report) == []
    assert report.notes[0] == f"1 frame ignored: {name} cannot be read"
    assert report.notes[1].startswith("in 2 flows, packets can be in frames that were ignored: missing packets")
    assert [one.stats.has_unread for one in report.flows] == [True, True]


@pytest.mark.parametrize("kind", UNREAD)
def test_other_rules_are_judged_all_the_same(kind: str) -> None:
    talk, number = missing_frame()
    frame = talk.ack(msn=1)
    assert broken(mirrored(talk, UNREAD[kind][1], number)) == [(frame, FrameRule.MSN)]


def fragment(frame: bytes) -> bytes:
    return frame[: ETHERNET_BYTES + 6] + b"\x20\0" + frame[ETHERNET_BYTES + 8 :]


def fragment6(frame: bytes) -> bytes:
    header = bytearray(frame[ETHERNET_BYTES:][:40])
    header[6] = 44
    return frame[:ETHERNET_BYTES] + bytes(header) + struct.pack(">BBHI", 17, 0, 1, 7) + frame[ETHERNET_BYTES + 40 :]


@pytest.mark.parametrize("is_v6", [False, True])
def test_what_may_be_in_a_fragment_is_not_missing(is_v6: bool) -> None:
    talk = Conversation(is_v6=is_v6)
    talk.write(3 * MTU)
    talk.ack(messages=1)
    report = mirrored(talk, fragment6 if is_v6 else fragment, 2)
    assert broken(report) == []
    assert report.notes[0] == "1 IP fragment ignored"


def test_what_may_be_in_a_frame_without_the_headers_is_not_missing() -> None:
    talk, number = missing_frame()
    report = mirrored(talk, lambda frame: frame[: ETHERNET_BYTES + 24], number)
    assert broken(report) == []
    assert report.notes[0] == "1 frame ignored: captured without the headers of RoCEv2"


def test_a_fragment_between_the_ends_of_the_tunnel_can_hide_a_packet() -> None:
    talk, number = missing_frame()
    report = mirrored(talk, READ["vxlan"][1])
    assert broken(report) == []
    talk.frames[number - 1] = fragment(talk.frames[number - 1])
    report = talk.audit()
    assert broken(report) == []
    assert report.notes[0] == "1 IP fragment ignored"
    assert report.flows[0].stats.has_unread


def test_a_retransmission_is_not_judged_where_packets_are_unread() -> None:
    talk, number = missing_frame()
    packets = talk.packets_of_write(3 * MTU)
    talk.send(packets, 0, 1, 2, 2)
    report = mirrored(talk, UNREAD["esp"][1], number)
    assert broken(report) == []
    assert report.flows[0].stats.go_back_n == "unclear"


def test_the_audited_port_is_not_taken_for_an_encapsulation() -> None:
    opened = open_frame(1, ip(17, udp(4789, bytes(40))), port=4789)
    assert isinstance(opened.found, Datagram)


@given(st.sampled_from([wrap for _, wrap in (*READ.values(), *UNREAD.values())]), st.data())
def test_any_damage_is_read_or_ignored(wrap: Callable[[bytes], bytes], data: st.DataObject) -> None:
    frame = bytearray(wrap(conversation().frames[0]))
    at = data.draw(st.integers(0, 120))
    frame[at : at + 4] = data.draw(st.binary(min_size=1, max_size=4))
    open_frame(1, bytes(frame[: data.draw(st.integers(0, len(frame)))]), port=4791)


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


@pytest.mark.parametrize(
    ("field", "value", "rules"),
    [
        ("version", 1, [FrameRule.TRANSPORT_VERSION]),
        ("p_key", 0x8001, [FrameRule.P_KEY]),
        ("p_key", 0x7FFF, []),  # of a limited member
    ],
)
def test_version_and_p_key(talk: Conversation, field: str, value: int, rules: list[FrameRule]) -> None:
    frame = talk.request(Opcode.RC_SEND_ONLY, payload=b"abcd", change=lambda bth: setattr(bth, field, value))
    talk.ack(messages=1)
    assert broken(talk.audit()) == [(frame, rule) for rule in rules]


@pytest.mark.parametrize(
    "packet",
    [
        *(pack_packet(Bth(opcode, Psn(106), SERVER_QP), payload=bytes(4)) for opcode in (0x15, 0x1F, 0x2C, 0x70, 0x9F)),
        pack_packet(Bth(Opcode.RC_WRITE_ONLY, Psn(106), SERVER_QP)),
        Bth(Opcode.RC_SEND_ONLY, Psn(106), SERVER_QP, pad=3).pack(),
        pack_packet(Bth(Opcode.RC_ACK, Psn(105), SERVER_QP), Aeth(0x1F, 2), payload=bytes(4)),
        bytes(8),
    ],
    ids=[
        *(f"reserved opcode {opcode}" for opcode in ("0x15", "0x1f", "0x2c", "0x70", "0x9f")),
        "headers that do not fit",
        "a pad that is longer than the payload",
        "payload behind an ACK",
        "too short for any packet",
    ],
)
def test_what_is_no_packet_is_malformed(talk: Conversation, packet: bytes) -> None:
    frame = talk.add(talk.to_server, packet)
    assert broken(talk.audit()) == [(frame, FrameRule.MALFORMED)]


@pytest.mark.parametrize("opcode", [0x44, 0xA4, 0xC1, 0xE0])
def test_other_transport_services_are_only_noted(talk: Conversation, opcode: int) -> None:
    talk.add(talk.to_server, pack_packet(Bth(opcode, Psn(5), SERVER_QP), payload=bytes(4)))
    report = talk.audit()
    assert broken(report) == []
    assert any(f"{opcode:#04x}" in note for note in report.notes)


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
