from __future__ import annotations

from pathlib import Path

import pytest

from emulator.errors import InputError
from emulator.run_folder.claim import claimed


def test_a_folder_is_for_one_at_a_time(tmp_path: Path) -> None:
    root = tmp_path / "new" / "folder"
    with claimed(root), pytest.raises(InputError, match="another command is playing into it"), claimed(root):
        pass
    with claimed(root):
        assert root.is_dir()
