"""Finding, filtering and removing the run folders below a root. The folders are the only store of runs.

Only folders that are valid runs and contain nothing but files of a run are removed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path

from emulator.errors import HostError, InputError, ResultError
from emulator.results.run_folder.manifest import (
    ABORTED,
    COMPLETE,
    CRASHED,
    INTERRUPTED,
    MANIFEST,
    PARTIAL_MANIFEST,
    RUNNING,
    Manifest,
    TraceFacts,
    read_manifest,
)
from emulator.results.run_folder.places import is_being_written
from emulator.results.run_folder.reader import read_run

RUNS = Path("runs")
"""Default root of run folders."""
UNREADABLE = "unreadable"
STATUSES = (COMPLETE, ABORTED, INTERRUPTED, RUNNING, UNREADABLE)
_DIGEST_CHARACTERS = 8
STILL_S = 600
"""Where no lock tells: a folder that was not closed counts as running until nothing in it has changed for this time."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run folder, from its manifest alone.

    Attributes:
        manifest: None if it cannot be read; `problem` is the reason.
        status: one of STATUSES; interrupted: the command that played it ended without closing the folder.
    """

    folder: Path
    manifest: Manifest | None
    status: str
    problem: str | None = None

    @property
    def created(self) -> datetime | None:
        """Start time; None if unknown."""
        if self.manifest is None:
            return None
        try:
            moment = datetime.fromisoformat(self.manifest.created)
        except ValueError:
            return None
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Selects runs; None selects all.

    Attributes:
        trace: pattern for the trace's path or its last part, or the start of its digest.
        dut: pattern for vendor, model, name or kind of the device under test.
        firmware: pattern for its firmware, or the name of its profile.
        since, until: bounds of the start time; `until` is excluded.
        status: one of STATUSES.
    """

    trace: str | None = None
    dut: str | None = None
    firmware: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    status: str | None = None

    @property
    def is_empty(self) -> bool:
        """Selects every run."""
        return self == RunFilter()

    def matches(self, run: StoredRun) -> bool:
        """Whether it selects a run. A run that cannot be read matches only its status, or an empty filter."""
        if self.status is not None and run.status != self.status:
            return False
        if run.manifest is None:
            return replace(self, status=None).is_empty
        return self._matches_manifest(run.manifest) and self._matches_time(run.created)

    def _matches_manifest(self, manifest: Manifest) -> bool:
        dut = [str(manifest.dut.get(name) or "") for name in ("vendor", "model", "name", "kind")]
        trace = manifest.trace
        return (
            (self.trace is None or _is_like(self.trace, (trace.path, Path(trace.path).name)) or self._has_digest(trace))
            and (self.dut is None or _is_like(self.dut, dut))
            and (self.firmware is None or _is_like(self.firmware, _firmwares(manifest)))
        )

    def _has_digest(self, trace: TraceFacts) -> bool:
        start = self.trace or ""
        return len(start) >= _DIGEST_CHARACTERS and trace.digest.startswith(start)

    def _matches_time(self, created: datetime | None) -> bool:
        if created is None:
            return self.since is None and self.until is None
        return (self.since is None or created >= self.since) and (self.until is None or created < self.until)


def _is_like(pattern: str, texts: Iterable[str]) -> bool:
    return any(fnmatch(text.lower(), pattern.lower()) for text in texts)


def _firmwares(manifest: Manifest) -> list[str]:
    profile = manifest.dut.get("profile") or {}
    return [str(one) for one in (manifest.dut.get("firmware"), profile.get("name")) if one]


def firmware_of(manifest: Manifest) -> str | None:
    """What distinguishes versions of the device: its firmware, its profile, or both; None if neither is named."""
    return " ".join(_firmwares(manifest)) or None


def is_run_folder(folder: Path) -> bool:
    """Whether this is a run folder; False if it cannot be read."""
    with suppress(OSError):
        return any((folder / name).is_file() for name in (MANIFEST, PARTIAL_MANIFEST))
    return False


def find_runs(root: Path) -> Iterator[Path]:
    """Run folders below a root, by name. Links are not followed, and run folders are not searched for further runs.

    Raises:
        InputError: the root is not a folder, or cannot be read.
    """
    try:
        entries = sorted(os.scandir(root), key=lambda entry: entry.name)
    except OSError as error:
        raise InputError(f"{root}: cannot be read ({error.strerror})") from error
    for entry in entries:
        if not entry.is_dir(follow_symlinks=False):
            continue
        folder = root / entry.name
        if is_run_folder(folder):
            yield folder
        elif not entry.name.startswith("."):
            yield from find_runs(folder)


def stored_run(folder: Path) -> StoredRun:
    """Read the manifest of a run folder; a damaged one is not an error."""
    is_closed = (folder / MANIFEST).exists()
    try:
        manifest = read_manifest(folder / (MANIFEST if is_closed else PARTIAL_MANIFEST))
    except ResultError as error:
        if not is_closed and (folder / MANIFEST).exists():  # it has been closed meanwhile
            return stored_run(folder)
        return StoredRun(folder, None, UNREADABLE, str(error))
    if is_closed:
        return StoredRun(folder, manifest, manifest.status, manifest.reason)
    is_held = is_being_written(folder)
    if is_held is None:
        is_held = time.time() - _written_at(folder) < STILL_S
    if (folder / MANIFEST).exists():  # it has been closed meanwhile
        return stored_run(folder)
    if is_held:
        return StoredRun(folder, manifest, RUNNING)
    return StoredRun(folder, manifest, INTERRUPTED, manifest.reason or CRASHED)


def list_runs(root: Path, which: RunFilter) -> list[StoredRun]:
    """The selected runs below a root, newest first, unreadable ones last.

    Raises:
        InputError: the root is not a folder.
    """
    runs = [run for run in map(stored_run, find_runs(root)) if which.matches(run)]
    return sorted(runs, key=lambda run: (-(run.created.timestamp() if run.created else -1), str(run.folder)))


def _written_at(folder: Path) -> float:
    newest = 0.0
    for entry in os.scandir(folder):
        with suppress(FileNotFoundError):  # the run is just closing, and has renamed it
            newest = max(newest, entry.stat().st_mtime)
    return newest


_OWN_FILES = (
    *("manifest*.json", "manifest*.json.tmp", "*.parquet", "*.parquet.tmp", "*.partial.arrows", "report.html"),
    ".charkha-*.tmp",  # of a file that was not whole yet
)
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
    return [Removal(run, size_of(run.folder), _why_kept(run)) for run in runs]


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


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder; those that vanish meanwhile do not count."""
    size = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            size += 0 if path.is_dir() else path.lstat().st_size
    return size
