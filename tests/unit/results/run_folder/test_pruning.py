"""Which run folders are removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.errors import InputError
from emulator.results.run_folder.pruning import choose_runs
from emulator.results.run_folder.store import RunFilter
from tests.support.repeated import write_runs


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two runs of firmware 1.0, then one of 1.1."""
    write_runs(tmp_path / "a", runs=2, seed=1, dut={"firmware": "1.0"})
    write_runs(tmp_path / "b", runs=1, seed=2, turn=300, dut={"firmware": "1.1"})
    return tmp_path


@pytest.mark.parametrize(
    ("firmware", "keep", "chosen"),
    [("1.0", 0, ["a/02", "a/01"]), ("1.0", 1, ["a/01"]), ("1.0", 5, []), (None, 2, ["a/01"]), ("2.0", 0, [])],
)
def test_a_filter_chooses_below_the_root_and_the_newest_are_kept(
    root: Path, firmware: str | None, keep: int, chosen: list[str]
) -> None:
    runs = choose_runs([], RunFilter(firmware=firmware), root=root, keep=keep)
    assert [str(run.folder.relative_to(root)) for run in runs] == chosen


def test_named_folders_are_chosen_once_newest_first(root: Path) -> None:
    folders = [root / "a" / "01", root / "b" / "01", root / "a" / ".." / "a" / "01", root / "a" / "01"]
    runs = choose_runs(folders, RunFilter(), root=root)
    assert [run.folder.resolve() for run in runs] == [root / "b" / "01", root / "a" / "01"]


def test_folders_and_a_filter_are_refused(root: Path) -> None:
    with pytest.raises(InputError, match="not both"):
        choose_runs([root / "a" / "01"], RunFilter(status="complete"), root=root)


def test_everything_at_once_is_refused(root: Path) -> None:
    with pytest.raises(InputError, match="prune never removes"):
        choose_runs([], RunFilter(), root=root)
