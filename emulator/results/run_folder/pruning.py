"""Removing run folders: only folders that are valid runs and contain nothing but files of a run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from emulator.errors import HostError, InputError, ResultError
from emulator.results.run_folder.manifest import RUNNING
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.store import RunFilter, StoredRun, list_runs, stored_run

_OWN_FILES = ("manifest*.json", "manifest*.json.tmp", "*.parquet", "*.parquet.tmp", "*.partial.arrows", "report.html")
_OWN_FOLDERS = ("trace",)


@dataclass(frozen=True, slots=True)
class Removal:
    """Whether a run folder can be removed: `kept_because` is None, or the reason to keep it."""

    run: StoredRun
    size_bytes: int
    kept_because: str | None


def choose_runs(folders: Sequence[Path], which: RunFilter, *, root: Path, keep: int = 0) -> list[StoredRun]:
    """The runs to remove, newest first.

    Args:
        folders: run folders; or none, to choose by the filter.
        which: chooses among the runs below `root`.
        root: where the filter looks.
        keep: number of the newest chosen runs to keep.

    Raises:
        InputError: folders and a filter, or nothing that limits the choice.
    """
    if folders and not which.is_empty:
        raise InputError("give run folders or filters, not both")
    if not folders and which.is_empty and not keep:
        raise InputError("give run folders, a filter or --keep N: prune never removes all runs at once")
    if not folders:
        return list_runs(root, which)[keep:]
    runs = {folder.parent.resolve() / folder.name: stored_run(folder) for folder in folders}
    return sorted(runs.values(), key=lambda run: -(run.created.timestamp() if run.created else 0))[keep:]


def plan_removal(runs: Sequence[StoredRun]) -> list[Removal]:
    """Decide for each of these run folders whether it can be removed."""
    return [Removal(run, _size(run.folder), _why_kept(run)) for run in runs]


def remove(removal: Removal) -> None:
    """Remove a run folder.

    Raises:
        InputError: it has to be kept.
        HostError: it cannot be removed. The manifest is removed last, so that the rest still counts as a run.
    """
    folder = removal.run.folder
    why = removal.kept_because or _why_kept(stored_run(folder))
    if why:
        raise InputError(f"{folder}: is kept: {why}")
    try:
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name.startswith("manifest")):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                Path(entry.path).unlink()
        folder.rmdir()
    except OSError as error:
        raise HostError(f"{folder}: cannot be removed ({error.strerror}); remove it as its owner") from error


def _why_kept(run: StoredRun) -> str | None:
    if not _is_recognised(run):
        return "it is not a valid run"
    if run.status == RUNNING:
        return "the run has not ended"
    if run.folder.is_symlink():
        return "it is a link"
    foreign = [entry.name for entry in os.scandir(run.folder) if not _is_own(entry)]
    if foreign:
        return f"it contains {', '.join(sorted(foreign))}, which is not part of a run"
    return None


def _is_recognised(run: StoredRun) -> bool:
    """Its manifest is valid in every field."""
    try:
        read_run(run.folder)
    except ResultError:
        return False
    return True


def _is_own(entry: os.DirEntry[str]) -> bool:
    if entry.is_dir(follow_symlinks=False):
        return entry.name in _OWN_FOLDERS
    return entry.is_file(follow_symlinks=False) and any(fnmatch(entry.name, name) for name in _OWN_FILES)


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
