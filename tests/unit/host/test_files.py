"""Temporary folders: each goes with its command, or with the next one."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from emulator.errors import HostError
from emulator.host.files import PREFIX, read_bounded, scratch_folder


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_file_is_read_up_to_a_limit(place: Path) -> None:
    (place / "file").write_bytes(b"1234")
    os.mkfifo(place / "pipe")
    assert read_bounded(place / "file", 4) == b"1234"
    assert read_bounded(place / "pipe") == b""  # nobody writes
    for path in (place / "file", Path("/dev/zero")):
        with pytest.raises(OSError, match="it has more than 3 B"):
            read_bounded(path, 3)
    with pytest.raises(IsADirectoryError):
        read_bounded(place)


def test_a_folder_goes_with_its_command(place: Path) -> None:
    with scratch_folder() as folder:
        (folder / "file").touch()
        assert list(place.iterdir()) == [folder]
    assert not list(place.iterdir())


def test_what_a_killed_command_left_goes_with_the_next(place: Path) -> None:
    left = place / f"{PREFIX}left"
    left.mkdir()
    (left / "control.sock").touch()
    with scratch_folder() as folder:
        assert list(place.iterdir()) == [folder]
    assert not left.exists()


def test_what_others_use_or_own_stays(place: Path) -> None:
    (place / f"{PREFIX}file").touch()
    (place / f"{PREFIX}link").symlink_to(place.parent)
    (place / "charkha-other").mkdir()
    with scratch_folder() as outer, scratch_folder() as inner:
        assert outer != inner
        assert {path.name for path in place.iterdir()} == {
            outer.name, inner.name, f"{PREFIX}file", f"{PREFIX}link", "charkha-other"
        }  # fmt: skip


def test_commands_that_begin_at_once_keep_their_folders() -> None:
    def use(_: int) -> None:
        with scratch_folder() as folder:
            (folder / "file").touch()
            assert (folder / "file").exists()

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(use, range(400)))


def test_no_place_for_a_folder_is_the_hosts_fault(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(place / "none"))
    with pytest.raises(HostError, match=r"cannot create a temporary folder .*TMPDIR"), scratch_folder():
        pass


_WITHOUT_DESCRIPTORS = """
import os, resource
from emulator.host.files import scratch_folder
with scratch_folder() as folder:
    (folder / "trace" / "ranks").mkdir(parents=True)
    (folder / "trace" / "ranks" / "0.et").touch()
    used = len(os.listdir("/proc/self/fd")) - 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (used, used))
"""


def test_a_folder_goes_where_no_descriptor_is_left(place: Path) -> None:
    environment = os.environ | {"TMPDIR": str(place)}
    subprocess.run([sys.executable, "-c", _WITHOUT_DESCRIPTORS], env=environment, check=True)
    assert not list(place.iterdir())
