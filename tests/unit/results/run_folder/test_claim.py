from __future__ import annotations

from pathlib import Path

import pytest

from emulator.errors import InputError
from emulator.results.run_folder.claim import claimed


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
