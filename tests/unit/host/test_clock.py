"""Two processes read one clock if their ids are equal."""

from pathlib import Path

import pytest

from emulator.host import clock


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(clock, "_BOOT_ID", tmp_path / "boot_id")
    monkeypatch.setattr(clock, "_TIME_NAMESPACE", tmp_path / "time")
    return tmp_path


def test_it_is_the_boot_and_the_time_namespace(kernel: Path) -> None:
    (kernel / "boot_id").write_text("b00t\n")
    (kernel / "time").symlink_to("time:[4026531834]")
    assert clock.clock_id() == "b00t/time:[4026531834]"


def test_a_kernel_without_time_namespaces_has_one_clock_per_boot(kernel: Path) -> None:
    (kernel / "boot_id").write_text("b00t\n")
    assert clock.clock_id() == "b00t"


def test_without_a_boot_id_nothing_is_known(kernel: Path) -> None:
    assert clock.clock_id() == ""
