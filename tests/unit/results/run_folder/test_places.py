"""Places to write to: what cannot be written is told before anything is done, and what is not ours stays."""

import os
from pathlib import Path

import pytest

from emulator.errors import InputError
from emulator.results.run_folder.places import HTML_MARK, check_file, check_folder, claimed

LONG = "x" * 300


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (LONG, "File name too long"),
        (f"file/{LONG}", "file is not a folder"),
        ("folder", "it is a folder"),
        ("", "give a file name"),
        ("none/page.html", "folder none does not exist"),
        ("file/page.html", "file is not a folder"),
        ("pipe", "it is not a regular file"),
        ("file", "Charkha did not write it"),
    ],
)
def test_a_file_has_a_place_or_a_reason(
    path: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("file").write_text("mine")
    os.mkfifo("pipe")
    with pytest.raises(InputError, match=f"^--html .*cannot be written: .*{problem}"):
        check_file(Path(path), "--html", mark=HTML_MARK)


def test_what_charkha_made_and_what_is_empty_may_be_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    check_file(page, "--html", mark=HTML_MARK)
    page.touch()
    check_file(page, "--html", mark=HTML_MARK)
    page.write_text(f"<head>{HTML_MARK}")
    check_file(page, "--html", mark=HTML_MARK)
    with pytest.raises(InputError, match="it exists"):
        check_file(page, "--out")


@pytest.mark.parametrize(
    ("path", "problem"),
    [(LONG, "too long"), (f"a/{LONG}/b", "too long"), ("file", "not a folder"), ("file/a", "not a folder")],
)
def test_a_folder_has_a_place_or_a_reason(
    path: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(InputError, match=f"^--out .*cannot be written: .*{problem}"):
        check_folder(Path(path), "--out")
    check_folder(Path("a/b"), "--out")
    check_folder(tmp_path, "--out")


def test_a_folder_is_for_one_at_a_time(tmp_path: Path) -> None:
    root = tmp_path / "new" / "folder"
    busy = pytest.raises(InputError, match="another command is playing into it")
    with claimed(root, is_new=True), busy, claimed(root, is_new=False):
        pass
    with claimed(root, is_new=False):
        assert root.is_dir()


def test_something_new_needs_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    for path in (tmp_path, tmp_path / "old"):
        with pytest.raises(InputError, match="is not an empty folder"), claimed(path, is_new=True):
            pass
