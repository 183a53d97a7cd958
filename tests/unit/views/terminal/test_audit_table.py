"""An audit in the terminal."""

from __future__ import annotations

from dataclasses import replace

from emulator.audit.report import AuditReport
from emulator.views.terminal import audit_table
from emulator.views.terminal.audit_table import EXPLAIN, render
from tests.support.roce_capture import MTU, Conversation
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
    assert totals == "data 3 · ACK 1 · NAK 0 · RNR 0 · gaps 0 · missing 0 · resent 0 · duplicates 0 · CE 0 · CNP 0"
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
    many = replace(report, violations=report.violations[:1] * (audit_table.SHOWN_VIOLATIONS + 3))
    text = text_of(many)
    assert text.count("frame 1: ") == audit_table.SHOWN_VIOLATIONS
    assert text.splitlines()[-1] == "… and 3 more (--json has them all)"


def test_an_empty_capture_has_totals_of_zero() -> None:
    text = text_of(Conversation().audit())
    assert ": 0 frames, 0 RoCEv2 packets, ICRC right in 0" in text
    assert "No rule is broken." in text


def test_every_column_is_explained() -> None:
    for name in ("opcode", "gaps / missing", "resent", "duplicates", "CNP gap", "Gb/s"):
        assert f"\n  {name} " in EXPLAIN
