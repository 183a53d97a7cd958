"""Two processes read one clock if their ids are equal."""

from pathlib import Path

from emulator.host.clock import clock_id


def of_kernel(kernel: Path) -> str:
    return clock_id(kernel / "boot_id", kernel / "time")


def test_it_is_the_boot_and_the_time_namespace(tmp_path: Path) -> None:
    (tmp_path / "boot_id").write_text("b00t\n")
    (tmp_path / "time").symlink_to("time:[4026531834]")
    assert of_kernel(tmp_path) == "b00t/time:[4026531834]"


def test_a_kernel_without_time_namespaces_has_one_clock_per_boot(tmp_path: Path) -> None:
    (tmp_path / "boot_id").write_text("b00t\n")
    assert of_kernel(tmp_path) == "b00t"


def test_without_a_boot_id_nothing_is_known(tmp_path: Path) -> None:
    assert of_kernel(tmp_path) == ""
