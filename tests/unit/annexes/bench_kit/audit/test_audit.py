"""Whole audits: correct connections, captures that start late, unreliable datagrams."""

import dataclasses
import gzip
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.annexes.bench_kit.audit.audit import Capture, audit_file, pair
from emulator.annexes.bench_kit.audit.collect import Collector
from emulator.annexes.bench_kit.audit.flow import FrameRule
from emulator.annexes.bench_kit.audit.pcap import CapturedFrame
from emulator.errors import InputError
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
    pcap,
    pcapng,
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


TIME_NS = 1_700_000_000_123_456_789
RECORDS = [(TIME_NS + index, bytes([index]) * (60 + index)) for index in range(5)]
Container = Callable[[list[tuple[int, bytes]]], bytes]


@pytest.fixture(params=[pcap, pcapng])
def container(request: pytest.FixtureRequest) -> Container:
    return request.param  # type: ignore[no-any-return]


def written(path: Path, data: bytes) -> Capture:
    path.write_bytes(data)
    return Capture(path)


@pytest.mark.parametrize("compressed", [bytes, gzip.compress])
@pytest.mark.parametrize("records", [RECORDS, []])
def test_frames_come_with_their_numbers_and_times(
    tmp_path: Path, container: Container, records: list[tuple[int, bytes]], compressed: Callable[[bytes], bytes]
) -> None:
    capture = written(tmp_path / "c", compressed(container(records)))
    frames = list(capture)
    assert [(one.time_ns, one.data) for one in frames] == records
    assert [(one.number, one.link_type) for one in frames] == [(index + 1, 1) for index in range(len(records))]
    assert capture.notes == []


def test_frames_longer_than_64_kib_are_not_truncated(tmp_path: Path, container: Container) -> None:
    (frame,) = written(tmp_path / "c", container([(TIME_NS, bytes(65_549))]))
    assert len(frame.data) == 65_549


@pytest.mark.parametrize("missing", [1, 30, 63, 64, 70, 79])
def test_an_incomplete_last_record_is_reported(tmp_path: Path, container: Container, missing: int) -> None:
    capture = written(tmp_path / "c", container(RECORDS)[:-missing])
    assert len(list(capture)) == 4
    (note,) = capture.notes
    said = "1 byte is missing" if missing == 1 else "missing"
    assert re.fullmatch(f"the file is damaged or ends early after frame 4: .*{said}", note)


def test_an_incomplete_compressed_file_is_reported(tmp_path: Path, container: Container) -> None:
    capture = written(tmp_path / "c", gzip.compress(container(RECORDS))[:-20])
    assert len(list(capture)) < 5
    assert len(capture.notes) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x1f\x8b",
        b"\x1f\x8bgarbage and more of it",
        b"no capture",
        pcap([])[:20],
        pcapng([])[:20],
        gzip.compress(b"", mtime=0),  # parts of test ids: workers must agree on them
        gzip.compress(b"no capture", mtime=0),
    ],
)
def test_a_file_that_is_not_a_capture_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(InputError, match=str(tmp_path)):
        list(written(tmp_path / "c", data))


@pytest.mark.parametrize("name", [".", "absent"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=str(tmp_path)):
        list(Capture(tmp_path / name))


def test_a_saved_conversation_is_read_as_it_was(tmp_path: Path) -> None:
    talk = Conversation()
    talk.write(5000)
    assert list(Capture(talk.save(tmp_path / "c"))) == list(talk.captured())


def test_a_capture_is_read_from_a_pipe(tmp_path: Path, container: Container) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as end:
        end.write(container(RECORDS))
    with os.fdopen(reading, "rb"):
        assert [(one.time_ns, one.data) for one in Capture(Path(f"/dev/fd/{reading}"))] == RECORDS


def test_the_reason_for_refusing_a_file_is_given(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"/c: the header .* is damaged or incomplete \(4 bytes are missing\)$"):
        list(written(tmp_path / "c", pcap([])[:20]))


def test_bytes_changed_within_compressed_data_are_reported(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(pcap(RECORDS)))
    data[-8] ^= 1  # the checksum of the data
    capture = written(tmp_path / "c", bytes(data))
    assert len(list(capture)) == 5
    assert "CRC check failed" in capture.notes[0]


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A capture of one RDMA WRITE of three packets."""
    talk = Conversation()
    talk.write(3 * MTU)
    return talk.save(tmp_path / "c.pcap")


def test_every_frame_of_the_file_is_audited(capture: Path) -> None:
    report = audit_file(capture)
    assert report.frames == report.roce_frames
    assert (report.frames > 0, list(report.violations)) == (True, [])


def test_frames_for_another_port_are_not_audited(capture: Path) -> None:
    with pytest.raises(InputError, match=r"c\.pcap: none of its \d+ frames goes to UDP port 4792 \(.*--port\)$"):
        audit_file(capture, port=4792)


def test_a_file_that_ends_before_the_first_frame_is_reported(capture: Path) -> None:
    capture.write_bytes(capture.read_bytes()[:30])
    with pytest.raises(InputError, match=r"none of its 0 frames .*; the file is damaged or ends early"):
        audit_file(capture)
