"""How much of the cores' time others got."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.host.steal import CoreTicks, steal_fraction


def test_steal_is_a_share_of_all_cores_time_and_guests_are_not_counted_twice(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  10 0 10 80 0 0 0 0 5 0\ncpu0 1 2\n")
    begin = CoreTicks.now(stat)
    stat.write_text("cpu  40 0 20 120 0 0 0 20 9 0\ncpu0 1 2\n")
    assert steal_fraction(begin, CoreTicks.now(stat)) == pytest.approx(0.2)  # 20 of 100 ticks


@pytest.mark.parametrize("text", ["", "cpu 1 2 3\n", "cpu a b c d e f g h\n", "intr 1 2 3 4 5 6 7 8 9\n", None])
def test_a_kernel_that_does_not_say_gives_none(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "stat").write_text(text)
    assert CoreTicks.now(tmp_path / "stat") is None
    assert steal_fraction(None, CoreTicks(100, 1)) is None
    assert steal_fraction(CoreTicks(100, 1), CoreTicks(100, 1)) is None  # no tick has passed


def test_a_count_that_goes_back_is_no_steal() -> None:
    assert steal_fraction(CoreTicks(100, 9), CoreTicks(200, 5)) == 0


def test_this_kernel_says() -> None:
    assert CoreTicks.now() is not None
