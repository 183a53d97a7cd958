"""Verdicts from the frame that was sent and the frames that were received."""

from typing import Any

import pytest
from rich.console import Console
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

from emulator.annexes.bench_kit.probe_verdict import FrameOutcome, FrameVerdict, judge, probe_to_json, render
from tests.support.terminal import rows_of, shown


def frame(
    *, tag: Any = None, mac: str = "02:00:00:00:00:02", tos: int = 0x68, ttl: int = 64, load: bytes = b"x" * 20
) -> bytes:
    header = Ether(dst=mac, src="02:00:00:00:00:01")
    header = header if tag is None else header / tag
    return bytes(header / IP(src="198.18.1.1", dst="198.18.2.1", tos=tos, ttl=ttl) / UDP(sport=1, dport=9) / Raw(load))


SENT = frame()


@pytest.mark.parametrize(
    ("received", "outcome", "changes"),
    [
        ([SENT], FrameOutcome.PASS, []),
        ([SENT + bytes(8)], FrameOutcome.PASS, []),
        ([], FrameOutcome.DROPPED, []),
        ([frame(tos=0x6B)], FrameOutcome.ALTERED, ["ECN 0 to 3"]),
        ([frame(tos=0x28)], FrameOutcome.ALTERED, ["DSCP 26 to 10"]),
        ([frame(ttl=63, mac="02:00:00:00:00:09")], FrameOutcome.PASS, ["routed"]),
        ([frame(ttl=63, tos=0x6B)], FrameOutcome.ALTERED, ["ECN 0 to 3", "TTL 64 to 63"]),
        ([frame(tag=Dot1Q(vlan=7))], FrameOutcome.ALTERED, ["VLAN 7 added"]),
        ([frame(load=b"x" * 19 + b"y")], FrameOutcome.ALTERED, ["payload"]),
        ([SENT + b"trailer!"], FrameOutcome.ALTERED, ["bytes after the packet"]),
    ],
    ids=range(10),
)
def test_the_verdict_follows_from_the_received_frames(
    received: list[bytes], outcome: FrameOutcome, changes: list[str]
) -> None:
    verdict = judge("g", "n", SENT, received)
    assert verdict.outcome is outcome
    assert list(verdict.changes) == changes


def test_a_removed_tag_is_reported_once() -> None:
    verdict = judge("g", "n", frame(tag=Dot1Q(vlan=100, prio=3)), [SENT])
    assert list(verdict.changes) == ["VLAN 100 removed"]


def test_copies_are_counted() -> None:
    assert judge("g", "n", SENT, [SENT, SENT]).copies == 2


def test_the_matrix_counts_verdicts_and_the_list_has_those_that_did_not_pass() -> None:
    verdicts = [
        FrameVerdict("ECN", "CE", FrameOutcome.PASS, copies=1),
        FrameVerdict("ECN", "ECT(0)", FrameOutcome.ALTERED, ["ECN 2 to 0"], copies=1),
        FrameVerdict("size", "1,501 bytes", FrameOutcome.NOT_SENT, why="too long"),
    ]
    out = Console(width=100)
    with out.capture() as capture:
        out.print(render(verdicts))
    text = capture.get()
    assert ["ECN", "1", "1", "0", "0"] in [line.split() for line in text.splitlines()]
    assert "ECN 2 to 0" in text
    assert "too long" in text
    assert " CE " not in text
    assert probe_to_json(verdicts)["counts"] == {"pass": 1, "altered": 1, "dropped": 0, "not sent": 1}


def v6(*, ttl: int = 64, traffic_class: int = 0, load: bytes = b"x" * 20) -> bytes:
    packet = IPv6(src="2001:db8::1", dst="2001:db8::2", tc=traffic_class, hlim=ttl) / UDP(sport=1, dport=9) / Raw(load)
    return bytes(Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01") / packet)


@pytest.mark.parametrize(
    ("received", "outcome", "changes"),
    [
        (v6(ttl=63), FrameOutcome.PASS, ["routed"]),
        (v6(traffic_class=3), FrameOutcome.ALTERED, ["ECN 0 to 3"]),
        (v6(traffic_class=46 << 2), FrameOutcome.ALTERED, ["DSCP 0 to 46"]),
        (v6(load=b"x" * 19), FrameOutcome.ALTERED, ["length 28 to 27", "payload"]),
    ],
)
def test_ipv6_frames_are_compared_by_the_same_names(received: bytes, outcome: FrameOutcome, changes: list[str]) -> None:
    verdict = judge("g", "n", v6(), [received])
    assert verdict.outcome is outcome
    assert sorted(verdict.changes) == changes


def test_the_priority_of_a_tag_can_change_without_the_tag() -> None:
    sent, received = frame(tag=Dot1Q(vlan=100, prio=3)), frame(tag=Dot1Q(vlan=100, prio=0))
    assert list(judge("g", "n", sent, [received]).changes) == ["priority 3 to 0"]


def test_a_checksum_that_changes_alone_is_reported() -> None:
    damaged = SENT[:24] + b"\x00\x01" + SENT[26:]
    assert list(judge("g", "n", SENT, [damaged]).changes) == ["IP checksum"]


def test_the_first_of_several_copies_is_compared() -> None:
    assert judge("g", "n", SENT, [SENT, frame(tos=0)]).outcome is FrameOutcome.PASS
    assert judge("g", "n", SENT, [frame(tos=0), SENT]).outcome is FrameOutcome.ALTERED


VERDICTS = [
    FrameVerdict("ECN", "CE", FrameOutcome.PASS, copies=1),
    FrameVerdict("ECN", "ECT(0)", FrameOutcome.ALTERED, ["ECN 2 to 0", "TTL 64 to 63"], copies=2),
    FrameVerdict("size", "1,500 bytes", FrameOutcome.PASS, copies=3),
    FrameVerdict("size", "1,501 bytes", FrameOutcome.NOT_SENT, why="longer than the MTU of the interface"),
    FrameVerdict("tags", "QinQ", FrameOutcome.DROPPED),
]


def test_groups_are_counted_in_the_order_of_the_probe() -> None:
    rows = rows_of(shown(render(VERDICTS)))
    assert rows[:3] == [["ECN", "1", "1", "0", "0"], ["size", "1", "0", "0", "1"], ["tags", "0", "0", "1", "0"]]


def test_frames_that_did_not_simply_pass_are_listed_with_details() -> None:
    text = shown(render(VERDICTS))
    listed = [line for line in text.splitlines() if line.startswith(("ECN ", "size ", "tags "))][3:]
    assert [" ".join(line.split()) for line in listed] == [
        "ECN ECT(0) altered ECN 2 to 0, TTL 64 to 63, 2 came out",
        "size 1,500 bytes pass 3 came out",
        "size 1,501 bytes not sent longer than the MTU of the interface",
        "tags QinQ dropped",
    ]


def test_every_frame_is_listed_on_request() -> None:
    assert " CE " not in shown(render(VERDICTS))
    assert "CE" in [row[1] for row in rows_of(shown(render(VERDICTS, every=True))) if len(row) > 1]


def test_if_every_frame_passed_there_is_no_list() -> None:
    text = shown(render(VERDICTS[:1]))
    assert rows_of(text) == [["ECN", "1", "0", "0", "0"]]


def test_the_document_has_counts_and_every_verdict() -> None:
    document = probe_to_json(VERDICTS)
    assert document["counts"] == {"pass": 2, "altered": 1, "dropped": 1, "not sent": 1}
    assert [one["name"] for one in document["probes"]] == [one.name for one in VERDICTS]
    assert document["probes"][3]["why"] == "longer than the MTU of the interface"


@pytest.mark.parametrize("width", [50, 60, 80])
def test_every_line_fits_the_width(width: int) -> None:
    text = shown(render(VERDICTS, every=True), width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "longer" in text
    assert "interface" in text
