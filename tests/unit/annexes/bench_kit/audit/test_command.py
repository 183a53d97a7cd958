"""An audit in the terminal."""

import json
from dataclasses import replace

import pytest

from emulator.annexes.bench_kit.audit import command
from emulator.annexes.bench_kit.audit.command import EXPLAIN, render
from emulator.annexes.bench_kit.audit.report import AuditReport, to_json
from emulator.roce.wire.headers import Bth
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.packet import pack_packet
from emulator.roce.wire.psn import Psn
from tests.support.roce_capture import MTU, Conversation, conversation
from tests.support.terminal import shown


def text_of(report: AuditReport) -> str:
    return shown(render(report), width=160)


def clean() -> Conversation:
    talk = Conversation()
    talk.write(3 * MTU)
    talk.ack(messages=1)
    return talk


def test_a_clean_capture_counts_packets_and_breaks_no_rule() -> None:
    headline, totals, *_ = lines = text_of(clean().audit()).splitlines()
    assert headline.endswith(": 4 frames, 4 RoCEv2 packets, ICRC right in 4")
    assert (
        totals
        == "data 3 · ACK 1 · NAK 0 · RNR 0 · gaps 0 · missing 0 · resent 0 · reordered 0 · duplicates 0 · CE 0 · CNP 0"
    )
    assert lines[-1] == "No rule is broken."


def test_a_flow_has_its_messages_and_its_acknowledgements_in_one_row() -> None:
    text = text_of(clean().audit())
    assert "1 × 3 KiB" in text  # noqa: RUF001
    columns = " ".join(text.splitlines()[2:])
    assert "ACK" in columns
    assert "CNP" not in columns, "columns without a value are hidden"


def test_lost_and_marked_packets_are_counted_in_the_totals() -> None:
    talk = Conversation()
    talk.write(4 * MTU, skip=[1, 2])
    talk.nak(101)
    talk.cnp()
    totals = text_of(talk.audit()).splitlines()[1]
    assert "gaps 1 · missing 2" in totals
    assert "NAK 1 " in totals
    assert totals.endswith("CNP 1")


def test_a_wrong_icrc_is_named_in_the_headline_and_as_a_violation() -> None:
    talk = clean()
    talk.frames[0] = talk.frames[0][:-1] + bytes([talk.frames[0][-1] ^ 1])
    report = talk.audit()
    text = text_of(report)
    assert "ICRC right in 3, wrong in 1" in text.splitlines()[0]
    assert "frame 1: " in text
    assert f"{len(report.violations)} violation" in text
    assert "more (--json has them all)" not in text


def test_only_the_first_violations_are_listed() -> None:
    talk = clean()
    talk.frames[0] = talk.frames[0][:-1] + bytes([talk.frames[0][-1] ^ 1])
    report = talk.audit()
    many = replace(report, violations=report.violations[:1] * (command.SHOWN_VIOLATIONS + 3))
    text = text_of(many)
    assert text.count("frame 1: ") == command.SHOWN_VIOLATIONS
    assert text.splitlines()[-1] == "… and 3 more (--json has them all)"


def test_an_empty_capture_has_totals_of_zero() -> None:
    text = text_of(Conversation().audit())
    assert ": 0 frames, 0 RoCEv2 packets, ICRC right in 0" in text
    assert "No rule is broken." in text


def test_a_verdict_says_that_not_every_rule_was_judged() -> None:
    talk = clean()
    assert text_of(talk.audit()).endswith("No rule is broken.")
    talk.frames.append(bytes(12) + b"\x88\xe5" + bytes(40))  # MACsec
    assert text_of(talk.audit()).endswith("No rule that could be judged is broken.")


def test_every_column_is_explained() -> None:
    for name in ("opcode", "gaps / missing", "reordered / extent", "resent", "duplicates", "CNP gap", "Gb/s"):
        assert f"\n  {name} " in EXPLAIN


@pytest.mark.parametrize("width", [56, 60, 70])
def test_a_narrow_table_leaves_columns_out_and_cuts_no_number(width: int) -> None:
    talk = conversation()
    talk.psn -= 3
    talk.request(Opcode.RC_WRITE_FIRST, payload=bytes(MTU))
    wide, narrow = shown(render(talk.audit()), width=200), shown(render(talk.audit()), width=width)
    assert "Left out" not in wide
    assert "Omitted at this width: duplicates" in narrow
    (row,) = (line.split() for line in wide.splitlines() if line.startswith("QP"))
    (short,) = (line.split() for line in narrow.splitlines() if line.startswith("QP"))
    assert set(short) <= set(row)
    assert all(len(line) <= width for line in narrow.splitlines())


def test_one_violation_is_counted_as_one() -> None:
    talk = conversation()
    talk.request(Opcode.RC_WRITE_MIDDLE, payload=bytes(MTU))
    assert "1 violation: opcode-sequence 1" in text_of(talk.audit())


def test_damaged_and_unchecked_packets_are_counted_in_the_headline() -> None:
    talk = conversation()
    flow, *others = talk.audit().flows
    flow = replace(flow, flow=replace(flow.flow, icrc_bad=2, icrc_unchecked=1))
    report = replace(talk.audit(), flows=(flow, *others))
    assert "ICRC right in 12, wrong in 2, unchecked in 1" in text_of(report)


def test_the_table_shows_the_busiest_flows_and_the_first_violations() -> None:
    talk = Conversation()
    for qp in range(60):
        for _ in range(1 + (qp == 59)):
            bth = Bth(Opcode.RC_WRITE_MIDDLE, Psn(1), 0x1000 + qp)
            talk.add(talk.to_server, pack_packet(bth, payload=bytes(100)))
    report = talk.audit()
    text = text_of(report)
    assert len(report.violations) == 60
    assert "QP 0x103b" in text
    assert "and 20 smaller flows" in text
    assert "and 40 more" in text


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
    text = text_of(report)
    assert f"frame {frame}: opcode-sequence" in text
    assert "ICRC right in 13" in text
    assert "No rule is broken" not in text
