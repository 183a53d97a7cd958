"""How much of the cores' time others got."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from emulator.host.core_wait import CoreTicks, CoreTime, CoreWait, steal_fraction, wait_fraction


def test_the_kernels_line_is_read(tmp_path: Path) -> None:
    (tmp_path / "schedstat").write_text("5000 300 17\n")
    assert CoreTime.now(tmp_path / "schedstat") == CoreTime(ran=5000, waited=300)


@pytest.mark.parametrize("content", ["", "x y z", "5"])
def test_what_the_kernel_does_not_provide_is_unknown(content: str, tmp_path: Path) -> None:
    (tmp_path / "schedstat").write_text(content)
    assert CoreTime.now(tmp_path / "schedstat") is None
    assert CoreTime.now(tmp_path / "absent") is None


def test_this_process_has_run() -> None:
    now = CoreTime.now()
    assert now.ran > 0


def test_the_wait_counts_against_the_time_that_a_core_was_wanted() -> None:
    assert wait_fraction(CoreTime(100, 10), CoreTime(160, 50)) == pytest.approx(0.4)
    assert wait_fraction(CoreTime(100, 10), CoreTime(200, 10)) == 0
    assert wait_fraction(CoreTime(100, 10), CoreTime(100, 10)) is None
    assert wait_fraction(None, CoreTime(100, 10)) is None
    assert wait_fraction(CoreTime(100, 10), None) is None


def test_a_wait_is_read_again_only_after_a_fifth_of_a_millisecond(tmp_path: Path) -> None:
    counters = tmp_path / "schedstat"
    counters.write_text("5000 300 17\n")
    wait = CoreWait(counters)
    assert wait.until(1_000_000) == 300
    counters.write_text("6000 900 18\n")
    assert (wait.until(1_199_999), wait.until(1_200_000)) == (300, 900)
    wait.close()
    wait.close()
    assert wait.until(2_000_000) == 900


def test_a_wait_that_the_kernel_does_not_provide_is_unknown(tmp_path: Path) -> None:
    assert CoreWait(tmp_path / "absent").until(5) == CoreWait(None).until(5) == -1
    assert CoreWait().until(5) >= 0


def test_a_wait_counts_only_while_a_port_has_nothing_to_send(tmp_path: Path) -> None:
    counters = tmp_path / "schedstat"
    counters.write_text("5000 0 17\n")
    wait = CoreWait(counters)
    busy, other = SimpleNamespace(empty_ns=4_000_000), SimpleNamespace(empty_ns=9_000_000)
    wait.queues += [busy, other]
    assert wait.until(1_000_000) == 0
    counters.write_text("6000 2500000 18\n")
    assert wait.until(4_000_000) == 0  # both had something until then
    counters.write_text("6000 3300000 19\n")
    assert wait.until(5_000_000) == 800_000  # one had nothing
    other.empty_ns = busy.empty_ns = 5_700_000
    counters.write_text("6000 3900000 20\n")
    assert wait.until(6_000_000) == 1_100_000  # at most the time in which they had nothing
    assert wait.until(6_150_000) == 1_100_000  # too early to read again, but they had nothing until then
    other.empty_ns = busy.empty_ns = 6_400_000
    counters.write_text("6000 4300000 21\n")
    assert wait.until(6_500_000) == 1_350_000
    wait.close()


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
