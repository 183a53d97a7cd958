"""Time stamps of the kernel on the monotonic clock."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from agents.nic.stamps import STAMP_BYTES, STAMP_SPACE, Bracket, Stamps, read_clocks, stamp_ns

MS = 1_000_000
START = 1_800_000_000 * 1_000 * MS


def clocks(*offsets_ns: int) -> Iterator[Bracket]:
    for offset in offsets_ns:
        yield Bracket(100, 150 + offset, 200)


def test_a_stamp_is_seconds_and_nanoseconds() -> None:
    assert stamp_ns(struct.pack("=qq", 7, 5)) == 7_000_000_005
    assert stamp_ns(struct.pack("=6q", 7, 5, 0, 0, 9, 9)) == 7_000_000_005  # SO_TIMESTAMPING: the first of three times
    assert (STAMP_BYTES, STAMP_SPACE) == (16, 32)


def test_the_offset_is_the_middle_of_a_bracket() -> None:
    bracket = Bracket(1_000, 5_000, 1_200)
    assert (bracket.width_ns, bracket.offset_ns) == (200, 3_900)
    assert read_clocks().width_ns >= 0


def test_stamps_move_to_the_monotonic_clock_with_one_offset_for_ten_milliseconds() -> None:
    readings = clocks(START, START + 77)
    stamps = Stamps(lambda: next(readings))
    assert stamps.monotonic(START + 5 * MS) == 5 * MS
    assert stamps.monotonic(START + 15 * MS - 1) == 15 * MS - 1
    assert stamps.monotonic(START + 15 * MS) == 15 * MS - 77


@pytest.mark.parametrize("step_s", [-3600, -1, 1, 3600])
def test_a_clock_that_is_set_moves_no_stamp_from_before_or_after(step_s: int) -> None:
    waited = 3 * MS // 1000
    now, offset = 7_000 * MS, START
    stamps = Stamps(lambda: Bracket(now, now + offset, now))
    stamped = []
    for number in range(60):
        now += MS
        if number == 30:
            offset += step_s * 1_000 * MS
        stamped.append((now, now + offset))
        if number in (10, 35, 40):  # what came meanwhile is read late
            now += waited
            assert [stamps.monotonic(realtime) for _, realtime in stamped] == [true for true, _ in stamped]
            stamped.clear()
