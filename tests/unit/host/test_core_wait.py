from __future__ import annotations

from pathlib import Path

import pytest

from emulator.host.core_wait import CoreTime, CoreWait, wait_fraction


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
    assert now is not None
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
