"""Verdicts of a probe in the terminal and as JSON."""

from __future__ import annotations

import pytest

from emulator.annexes.bench_kit.probe.as_json import probe_to_json
from emulator.annexes.bench_kit.probe.probe_table import render
from emulator.annexes.bench_kit.probe.verdict import FrameOutcome, FrameVerdict
from tests.support.terminal import rows_of, shown

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
