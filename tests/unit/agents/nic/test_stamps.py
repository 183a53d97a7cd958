"""Time stamps of the kernel on the monotonic clock."""

import struct
from collections.abc import Iterator

import pytest

from agents.nic.stamps import STAMP_BYTES, STAMP_SPACE, Bracket, HeldFrames, Stamps, read_clocks, stamp_ns

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


def test_a_clock_that_is_set_is_counted_and_one_that_is_slewed_is_not() -> None:
    now, offset = 1_000 * MS, START
    stamps = Stamps(lambda: Bracket(now, now + offset, now))
    for _ in range(20):
        now += 20 * MS
        offset += 10_000  # 500 ppm
        stamps.monotonic(now + offset)
    assert stamps.steps == 0
    offset += 1 * MS
    stamps.monotonic(now + offset + 20 * MS)
    assert stamps.steps == 1


def test_a_held_frame_came_before_the_timer_began_or_when_it_completed_what_was_before_it() -> None:
    held = HeldFrames(50_000)
    # The frames before it were passed on because it came: their stamp is its time.
    for number in range(200):
        at = 1_000_000 * number
        assert held.came(at + 72_000, at) == pytest.approx(at, abs=12_000)
    assert held.came(1_072_000, 1_000_000) == pytest.approx(1_000_000, abs=1_000)
    assert held.came(9_000_000, 1_000_000) == pytest.approx(9_000_000 - 72_000, abs=1_000)  # it came long after
    assert held.came(9_000_000, 0) == pytest.approx(9_000_000 - 72_000, abs=1_000)  # nothing before it is known
