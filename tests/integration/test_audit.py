"""`charkha runs audit` as a user runs it, on captures of a foreign endpoint and on captures made by hand."""

from pathlib import Path

import pytest

from emulator.annexes.bench_kit.audit.audit import audit_file
from tests.support.command import answer, charkha, here
from tests.support.roce_capture import MTU, Conversation
from tests.support.shared_traces import require_shared

GOLDEN = ("golden", "rocev2")
CLEAN = {
    "pingpong_v4.pcap": (24, 6, {4096: 6}),
    "send_multi_m1024.pcap": (50, 5, {10_001: 5}),
    "send_only_64.pcap": (5, 5, {64: 5}),
    "uc_write.pcap": (15, 0, {3001: 5}),
    "write_multi_m1024.pcap": (50, 5, {10_001: 5}),
    "write_only_64.pcap": (5, 5, {64: 5}),
}


@pytest.mark.parametrize("name", CLEAN)
def test_clean_captures_of_a_foreign_endpoint(name: str) -> None:
    data, acks, sizes = CLEAN[name]
    report = audit_file(require_shared(*GOLDEN, name))
    assert report.violations == ()
    assert report.notes == ()
    assert sum(one.flow.icrc_good for one in report.flows) == report.frames
    assert sum(one.data_frames for one in report.flows) == data
    assert sum(one.carried.acks for one in report.flows) == acks
    assert sum((one.messages.sizes for one in report.flows), start=type(report.flows[0].messages.sizes)()) == sizes
    assert all(one.stats.gaps == one.stats.retransmitted == 0 for one in report.flows)


@pytest.mark.parametrize(("side", "data", "missing", "duplicates"), [("client", 824, 0, 624), ("server", 788, 36, 588)])
def test_both_sides_of_a_lossy_connection(side: str, data: int, missing: int, duplicates: int) -> None:
    report = audit_file(require_shared(*GOLDEN, f"loss_write.{side}.pcap.gz"))
    assert report.violations == ()
    flow = next(one for one in report.flows if one.data_frames)
    assert (flow.data_frames, flow.stats.missing, flow.stats.duplicates) == (data, missing, duplicates)
    assert (flow.answers.acks, flow.answers.naks) == (20, {"sequence error": 9})
    assert (flow.stats.restarts, flow.stats.restarts_after_nak, flow.stats.go_back_n) == (9, 9, "followed")
    assert flow.messages.sizes == {10_001: 20}
    assert flow.payload_bytes == 20 * 10_001


CAPTURES = Path(__file__).parents[1] / "data" / "captures"


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.gz")), ids=lambda path: path.name)
def test_a_foreign_endpoint_breaks_no_rule_whatever_it_does(path: Path) -> None:
    report = audit_file(path)
    assert report.violations == ()
    assert report.notes == ()
    assert {one.stats.go_back_n for one in report.flows} <= {"none", "followed"}


@pytest.mark.parametrize("name", ["read-loss", "read-loss-v6"])
def test_both_sides_of_reads_with_loss(name: str) -> None:
    flows = [one for side in ("client", "server") for one in audit_file(CAPTURES / f"{name}.{side}.pcap.gz").flows]
    reads = [one for one in flows if one.data_frames]
    assert [one.messages.sizes for one in reads] == [{3001: 12}] * 2
    assert reads[0].stats.restarts == reads[1].stats.restarts > 0
    assert [one.carried.read_bytes for one in flows if one.carried.read_responses] == [12 * 3001] * 2


@pytest.mark.parametrize(("verb", "sizes"), [("write", 13), ("read", 13), ("atomic", 13)])
@pytest.mark.parametrize("side", ["client", "server"])
def test_a_wrong_rkey_is_refused_once(verb: str, sizes: int, side: str) -> None:
    (path,) = CAPTURES.glob(f"{verb}-wrong-rkey*.{side}.pcap.gz")
    flow = next(one for one in audit_file(path).flows if one.data_frames)
    assert flow.answers.naks == {"remote access": 1}
    assert flow.messages.sizes.total() >= sizes


@pytest.mark.parametrize(("side", "rnr_naks"), [("client", 3), ("server", 4)])
def test_a_receiver_that_is_not_ready(side: str, rnr_naks: int) -> None:
    flow = next(one for one in audit_file(CAPTURES / f"rnr-loss.{side}.pcap.gz").flows if one.data_frames)
    assert flow.answers.rnr_naks == rnr_naks
    assert flow.messages.sizes == {3000: 10, 2048: 10, 8192: 1}


@pytest.mark.parametrize("name", ["erspan-ii", "vxlan"])
def test_frames_that_a_switch_mirrors_are_read(name: str) -> None:
    report = audit_file(require_shared("cases", "traces", "audit-encapsulated", f"{name}.pcap"))
    assert report.violations == ()
    assert sum(one.data_frames for one in report.flows) == 50
    assert sum(one.carried.acks for one in report.flows) == 5


def test_a_frame_that_is_swapped_ends_with_1_and_its_number(tmp_path: Path) -> None:
    talk = Conversation()
    talk.write(4 * MTU)
    talk.ack(messages=1)
    talk.frames[1:3] = reversed(talk.frames[1:3])
    done = charkha("runs", "audit", talk.save(tmp_path / "c.pcap"), cwd=tmp_path)
    assert (done.code, done.stderr) == (1, "")
    assert "gaps 0 · missing 0 · resent 0 · reordered 1 " in done.stdout
    assert "frame 3: packet-order: PSN 0x65 arrives 1 packet late" in done.stdout


def test_a_capture_of_roce_v1_ends_with_2_and_says_so(tmp_path: Path) -> None:
    talk = Conversation()
    talk.frames = [bytes(12) + b"\x89\x15" + bytes(60)] * 3
    done = here("runs", "audit", talk.save(tmp_path / "c.pcap"), cwd=tmp_path)
    assert (done.code, done.stdout) == (2, "")
    assert "3 frames of RoCE v1 (EtherType 0x8915) ignored: only RoCEv2 is audited" in " ".join(done.stderr.split())


def test_a_clean_capture_ends_with_0_and_a_table(tmp_path: Path) -> None:
    talk = Conversation()
    talk.write(3 * MTU)
    talk.ack(messages=1)
    done = answer("runs", "audit", talk.save(tmp_path / "c.pcap"), cwd=tmp_path)
    assert "No rule is broken." in done.stdout
    assert "10.0.0.1 > 10.0.0.2" in done.stdout
