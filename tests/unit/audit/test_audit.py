"""Captures as they occur: other link types, halves of connections, many queue pairs, cut and merged frames."""

from __future__ import annotations

import dataclasses
import json
import struct

import pytest
from rich.console import Console

from emulator.audit.link import CapturedFrame
from emulator.audit.report import AuditReport, to_json
from emulator.audit.rules import Rule
from emulator.roce.headers import Bth, Deth
from emulator.roce.icrc import UdpPath, icrc
from emulator.roce.opcodes import Opcode
from emulator.roce.packet import pack_icrc, pack_packet
from emulator.roce.psn import Psn
from emulator.views.terminal.audit_table import render
from tests.support.roce_capture import (
    CLIENT,
    ETHERNET,
    MTU,
    SERVER,
    SERVER_QP,
    STEP_NS,
    Conversation,
    audit_frames,
    ethernet,
    ip_datagram,
)

ETHERNET_BYTES = 14
UDP_HEADERS = ETHERNET_BYTES + 28


def conversation() -> Conversation:
    talk = Conversation()
    for _ in range(3):
        talk.write(2 * MTU + 1)
        talk.ack(messages=1)
    return talk


def shown(report: AuditReport, *, width: int = 120) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(render(report))
    console.file.close()
    return console.export_text()


@pytest.mark.parametrize(
    ("link_type", "header"),
    [
        (1, bytes(12) + b"\x81\x00\x00\x05\x08\x00"),
        (1, bytes(12) + b"\x88\xa8\x00\x05\x81\x00\x00\x06\x08\x00"),
        (0, struct.pack("<I", 2)),
        (108, struct.pack(">I", 2)),
        (12, b""),
        (14, b""),
        (101, b""),
        (228, b""),
        (113, bytes(14) + b"\x08\x00"),
        (113, bytes(14) + b"\x81\x00\x00\x05\x08\x00"),
        (276, b"\x08\x00" + bytes(18)),
        (276, b"\x81\x00" + bytes(18) + b"\x00\x05\x08\x00"),
    ],
)
def test_link_types(link_type: int, header: bytes) -> None:
    frames = [
        dataclasses.replace(frame, link_type=link_type, data=header + frame.data[ETHERNET_BYTES:])
        for frame in conversation().captured()
    ]
    report = audit_frames(frames)
    assert report.roce_frames == len(frames)
    assert report.violations == ()
    assert report.flows[0].messages.sizes == {2 * MTU + 1: 3}


def test_a_link_type_that_cannot_be_read_is_named() -> None:
    frames = [dataclasses.replace(frame, link_type=147) for frame in conversation().captured()]
    report = audit_frames(frames)
    assert report.roce_frames == 0
    assert report.notes == ("12 frames ignored: link type 147 is not supported",)


def test_trailing_bytes_of_short_ethernet_frames_do_not_matter() -> None:
    frames = [dataclasses.replace(frame, data=frame.data + bytes(6)) for frame in conversation().captured()]
    assert audit_frames(frames).violations == ()


def test_fields_that_routers_change_do_not_matter() -> None:
    path = UdpPath.between(CLIENT, SERVER, source_port=50001)
    packet = pack_packet(Bth(Opcode.RC_SEND_ONLY, Psn(1), SERVER_QP), payload=b"abcd")
    changed = ip_datagram(path, packet, traffic_class=0x6B, hop_limit=3)
    report = audit_frames([CapturedFrame(1, 0, ETHERNET, ethernet(changed))])
    assert report.violations == ()
    assert report.flows[0].flow.ce_marked == 1


def test_ipv6_extension_headers_are_stepped_over() -> None:
    talk = Conversation(is_v6=True)
    talk.write(4)
    data = talk.frames[0]
    ip, rest = bytearray(data[14:54]), data[54:]
    ip[4:6] = struct.pack(">H", len(rest) + 8)
    next_header, ip[6] = ip[6], 60
    report = audit_frames(
        [CapturedFrame(1, 0, ETHERNET, data[:14] + bytes(ip) + bytes([next_header]) + bytes(7) + rest)]
    )
    assert report.roce_frames == 1


def test_other_ports_and_protocols_are_not_looked_at() -> None:
    talk = conversation()
    tcp = bytearray(talk.frames[0])
    tcp[ETHERNET_BYTES + 9] = 6
    talk.frames.append(bytes(tcp))
    talk.frames.append(bytes(12) + b"\x08\x06" + bytes(46))
    report = talk.audit()
    assert (report.frames, report.roce_frames, report.violations) == (14, 12, ())
    assert audit_frames(talk.captured(), port=4792).roce_frames == 0


def test_fragments_are_left_out_and_mentioned() -> None:
    talk = conversation()
    fragment = bytearray(talk.frames[0])
    fragment[ETHERNET_BYTES + 6] = 0x20
    talk.frames[0] = bytes(fragment)
    report = talk.audit()
    assert report.roce_frames == 11
    assert "1 IP fragment ignored" in report.notes


def test_a_capture_of_headers_only_is_checked_without_icrc() -> None:
    frames = [dataclasses.replace(frame, data=frame.data[: UDP_HEADERS + 28]) for frame in conversation().captured()]
    report = audit_frames(frames)
    assert report.violations == ()
    assert report.flows[0].flow.icrc_unchecked == 6  # the last ones, of one byte, are whole
    assert report.flows[0].messages.sizes == {2 * MTU + 1: 3}
    assert report.notes == ("6 frames captured in part: ICRCs not checked",)


def test_frames_cut_within_the_headers_are_counted_alone() -> None:
    for length in range(UDP_HEADERS + 28):
        frames = [dataclasses.replace(frame, data=frame.data[:length]) for frame in conversation().captured()]
        assert audit_frames(frames).violations == ()


def test_a_capture_that_starts_in_mid_connection() -> None:
    talk = conversation()
    for start in range(12):
        report = audit_frames(list(talk.captured())[start:])
        assert report.violations == (), f"from frame {start + 1}"


@pytest.mark.parametrize("is_server", [False, True])
def test_one_side_alone(is_server: bool) -> None:
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
    """The same frame to another queue pair, its ICRC made right."""
    datagram = bytearray(frame[ETHERNET_BYTES:])
    datagram[33:36] = qp.to_bytes(3, "big")
    path = UdpPath(bytes(datagram[12:16]), bytes(datagram[16:20]), int.from_bytes(datagram[20:22], "big"))
    right = icrc(path, bytes(datagram[28:-4]), ip_id=int.from_bytes(datagram[4:6], "big"))
    return frame[:ETHERNET_BYTES] + bytes(datagram[:-4]) + pack_icrc(right)


def superframe(path: UdpPath, packets: list[bytes], *, first_id: int = 0) -> CapturedFrame:
    """What is captured before the kernel cuts: the packets, each with the ICRC it will need, behind one header."""
    whole = b"".join(
        packet + pack_icrc(icrc(path, packet, ip_id=first_id + index)) for index, packet in enumerate(packets)
    )
    data = ethernet(ip_datagram(path, whole[:-4], ip_id=first_id, crc=int.from_bytes(whole[-4:], "little")))
    return CapturedFrame(1, 0, ETHERNET, data)


def middles(count: int, *, payload: int = MTU) -> list[bytes]:
    return [
        pack_packet(Bth(Opcode.RC_SEND_MIDDLE, Psn(50 + index), SERVER_QP), payload=bytes([7]) * payload)
        for index in range(count)
    ]


@pytest.mark.parametrize("source", [CLIENT, "fd00::1"])
@pytest.mark.parametrize("count", [2, 3, 60])
def test_superframes_are_cut_into_their_packets(source: str, count: int) -> None:
    path = UdpPath.between(source, SERVER if source == CLIENT else "fd00::2", source_port=50001)
    last = pack_packet(Bth(Opcode.RC_SEND_LAST, Psn(50 + count), SERVER_QP), payload=b"last")
    report = audit_frames([superframe(path, [*middles(count), last], first_id=9)])
    assert report.violations == ()
    assert report.superframes == 1
    assert report.flows[0].flow.opcodes == {Opcode.RC_SEND_MIDDLE: count, Opcode.RC_SEND_LAST: 1}
    assert report.flows[0].flow.icrc_good == count + 1
    assert any("1 super-frame (" in note for note in report.notes)


def test_a_damaged_packet_in_a_superframe_is_found() -> None:
    frame = superframe(UdpPath.between(CLIENT, SERVER, source_port=50001), middles(4))
    data = bytearray(frame.data)
    data[UDP_HEADERS + 2 * (MTU + 16) + 100] ^= 0xFF
    report = audit_frames([dataclasses.replace(frame, data=bytes(data))])
    assert [one.rule for one in report.violations] == [Rule.ICRC]
    assert report.flows[0].flow.icrc_good == 3


def test_a_long_datagram_that_cannot_be_cut_is_left_out_and_mentioned() -> None:
    path = UdpPath.between(CLIENT, SERVER, source_port=50001)
    packet = pack_packet(Bth(Opcode.RC_SEND_MIDDLE, Psn(1), SERVER_QP), payload=bytes(9000))
    report = audit_frames([CapturedFrame(1, 0, ETHERNET, ethernet(ip_datagram(path, packet, crc=1)))])
    assert report.violations == ()
    assert any("no packet boundaries" in note for note in report.notes)


@pytest.mark.parametrize("count", [2, 40])
def test_a_superframe_captured_in_part_breaks_no_rule_and_hides_no_damage(count: int) -> None:
    """As with tcpdump -s 96: what it held is not known, so gaps behind it are not the sender's."""
    talk = conversation()
    whole = superframe(talk.to_server, middles(count))
    part = dataclasses.replace(whole, data=whole.data[:96])
    talk.psn += count
    begun = len(talk.frames)
    talk.write(2 * MTU + 1)
    talk.ack(messages=1)
    frames = list(talk.captured())
    report = audit_frames([*frames[:begun], part, *frames[begun:]])
    assert report.violations == ()
    assert report.superframes == 1
    assert report.flows[0].goodput_bps is None
    assert any("1 super-frame captured in part" in note for note in report.notes)
    damaged = bytearray(frames[0].data)
    damaged[-1] ^= 1
    again = audit_frames([dataclasses.replace(frames[0], data=bytes(damaged)), part, *frames[1:]])
    assert [one.rule for one in again.violations] == [Rule.ICRC]


def test_without_answers_nobody_knows_where_a_sender_should_go_back_to() -> None:
    talk = Conversation()
    talk.write(3 * MTU)
    talk.psn -= 2
    talk.request(Opcode.RC_WRITE_MIDDLE, payload=bytes(MTU))
    (flow,) = talk.audit().flows
    assert (flow.stats.restarts, flow.stats.go_back_n) == (1, "unclear")


def test_congestion_notifications_stand_with_the_requests_they_are_about() -> None:
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


def test_unreliable_datagrams_are_counted_and_may_jump() -> None:
    talk = Conversation()
    for psn in (5, 900, 3):
        bth = Bth(Opcode.UD_SEND_ONLY, Psn(psn), SERVER_QP)
        talk.add(talk.to_server, pack_packet(bth, Deth(1, 2), payload=bytes(64)))
    report = talk.audit()
    assert report.violations == ()
    assert (report.flows[0].data_frames, report.flows[0].messages.sizes) == (3, {64: 3})


def test_losses_of_unreliable_connections_are_counted() -> None:
    talk = Conversation()
    for psn in (1, 2, 5, 4):
        talk.request(Opcode.UC_SEND_ONLY, payload=bytes(8), psn=psn)
    report = talk.audit()
    stats = report.flows[0].stats
    assert report.violations == ()
    assert (stats.gaps, stats.missing, stats.refilled, stats.go_back_n) == (1, 2, 1, "none")


def test_goodput_counts_new_payload_once() -> None:
    talk = Conversation()
    packets = talk.packets_of_write(3 * MTU)
    for opcode, extensions, payload, psn in [*packets, *packets]:
        talk.request(opcode, *extensions, payload=payload, psn=psn)
    (flow,) = talk.audit().flows
    assert flow.payload_bytes == 3 * MTU
    assert flow.goodput_bps == pytest.approx(3 * MTU * 8 / (5 * STEP_NS * 1e-9))


def test_no_goodput_without_times() -> None:
    frames = [dataclasses.replace(one, time_ns=None) for one in conversation().captured()]
    assert audit_frames(frames).flows[0].goodput_bps is None


def test_json_and_table_say_the_same() -> None:
    talk = conversation()
    frame = talk.request(Opcode.RC_WRITE_MIDDLE, payload=bytes(MTU))
    report = talk.audit()
    facts = json.loads(json.dumps(to_json(report)))
    assert facts["rules_broken"] == {"opcode-sequence": 1}
    assert facts["violations"][0]["frame"] == frame
    assert facts["total"]["opcodes"]["RC_ACK"] == facts["total"]["acks"] == 3
    assert facts["flows"][0]["messages"] == {str(2 * MTU + 1): 3}
    assert facts["flows"][0]["answered_by"] == "10.0.0.2 > 10.0.0.1 QP 0x22"
    text = shown(report)
    assert f"frame {frame}: opcode-sequence" in text
    assert "ICRC right in 13" in text
    assert "No rule is broken" not in text


@pytest.mark.parametrize("width", [56, 60, 70])
def test_a_narrow_table_leaves_columns_out_and_cuts_no_number(width: int) -> None:
    talk = conversation()
    talk.psn -= 3
    talk.request(Opcode.RC_WRITE_FIRST, payload=bytes(MTU))
    wide, narrow = shown(talk.audit(), width=200), shown(talk.audit(), width=width)
    assert "Left out" not in wide
    assert "Left out at this width: duplicates" in narrow
    (row,) = (line.split() for line in wide.splitlines() if line.startswith("QP"))
    (short,) = (line.split() for line in narrow.splitlines() if line.startswith("QP"))
    assert set(short) <= set(row)
    assert all(len(line) <= width for line in narrow.splitlines())


def test_one_violation_is_counted_as_one() -> None:
    talk = conversation()
    talk.request(Opcode.RC_WRITE_MIDDLE, payload=bytes(MTU))
    assert "1 violation: opcode-sequence 1" in shown(talk.audit())


def test_damaged_and_unchecked_packets_are_counted_in_the_headline() -> None:
    talk = conversation()
    flow, *others = talk.audit().flows
    flow = dataclasses.replace(flow, flow=dataclasses.replace(flow.flow, icrc_bad=2, icrc_unchecked=1))
    report = dataclasses.replace(talk.audit(), flows=(flow, *others))
    assert "ICRC right in 12, wrong in 2, unchecked in 1" in shown(report)


def test_the_table_shows_the_busiest_flows_and_the_first_violations() -> None:
    talk = Conversation()
    for qp in range(60):
        for _ in range(1 + (qp == 59)):
            bth = Bth(Opcode.RC_WRITE_MIDDLE, Psn(1), 0x1000 + qp)
            talk.add(talk.to_server, pack_packet(bth, payload=bytes(100)))
    report = talk.audit()
    text = shown(report)
    assert len(report.violations) == 60
    assert "QP 0x103b" in text
    assert "and 20 smaller flows" in text
    assert "and 40 more" in text
