"""Groups of runs: several runs of one firmware, named on the command line by a folder or a pattern."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from emulator.errors import InputError, ResultError
from emulator.run_folder.manifest import COMPLETE, Manifest
from emulator.run_folder.reader import Run, read_run
from emulator.run_folder.store import find_runs, firmware_of, is_run_folder
from emulator.statistics.classes import ClassKey
from emulator.statistics.measurements import Measurements, measurements
from emulator.statistics.summary import summarise
from emulator.visible import visible


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A run and its times; `limited` are classes where a calibrated tester is the limit (see ClassSummary)."""

    folder: Path
    manifest: Manifest
    measurements: Measurements
    limited: frozenset[ClassKey] = frozenset()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A run that does not count, and why."""

    folder: Path
    why: str


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Runs that are repetitions of each other.

    Attributes:
        name: what the group is called in tables, distinct among the groups of a comparison.
        runs: those that count, by the time they were made; at least one.
        left_out: the others.
    """

    name: str
    runs: Sequence[MeasuredRun]
    left_out: Sequence[LeftOut] = ()

    @property
    def attempted(self) -> int:
        """Runs that count, and those that do not."""
        return len(self.runs) + len(self.left_out)


def read_groups(arguments: Sequence[str]) -> list[RunGroup]:
    """The group of every argument, in that order.

    Args:
        arguments: run folders, folders of run folders, or patterns of either.

    Raises:
        InputError: nothing is there, no run of a group is complete, a run is in two groups.
        ResultError: a run folder that cannot be read.
    """
    folders = [find_group(argument) for argument in arguments]
    _refuse_shared(arguments, folders)
    names = [visible(name) for name in _names(arguments)]
    return [_read_group(name, found) for name, found in zip(names, folders, strict=True)]


def groups_to_compare(arguments: Sequence[str], *, by_firmware: bool) -> list[RunGroup]:
    """At least two groups of runs.

    Args:
        arguments: as for `read_groups`.
        by_firmware: if there is one argument only, make a group of each firmware in it.

    Raises:
        InputError: there is one group only, or as for `read_groups`.
        ResultError: a run folder that cannot be read.
    """
    groups = read_groups(arguments)
    if by_firmware and len(groups) == 1:
        groups = split_by_firmware(groups[0])
    if len(groups) < 2:
        why = "all its runs are of one firmware" if by_firmware else "or split one by firmware with --trend"
        raise InputError(f"{arguments[0]}: two groups are needed for a comparison: name another, {why}")
    return groups


def split_by_firmware(group: RunGroup) -> list[RunGroup]:
    """A group per firmware of its runs, by the time the first run of each was made."""
    versions: dict[str, list[MeasuredRun]] = {}
    for run in group.runs:
        versions.setdefault(visible(firmware_of(run.manifest) or "no firmware named"), []).append(run)
    groups = [RunGroup(name, runs) for name, runs in versions.items()]
    return [RunGroup(groups[0].name, groups[0].runs, group.left_out), *groups[1:]]


def find_group(argument: str) -> list[Path]:
    """The run folders that an argument means, each once.

    Raises:
        InputError: there is none.
    """
    path = Path(argument)
    roots = [path] if path.exists() else _matching(argument)
    found = {folder.resolve(): folder for root in roots for folder in _runs_at(root)}
    if not found:
        what = "there is no run folder in it" if roots else "no such run folder, and no pattern that matches one"
        raise InputError(f"{argument}: {what}; `charkha runs list DIR` shows where there are some")
    return list(found.values())


def _matching(pattern: str) -> list[Path]:
    # Path.glob takes no absolute pattern.
    return [Path(one) for one in sorted(glob.glob(pattern, recursive=True))]  # noqa: PTH207


def _runs_at(root: Path) -> Iterable[Path]:
    return [root] if is_run_folder(root) else find_runs(root)


def _refuse_shared(arguments: Sequence[str], groups: Sequence[Sequence[Path]]) -> None:
    owner: dict[Path, str] = {}
    for argument, folders in zip(arguments, groups, strict=True):
        for folder in folders:
            other = owner.setdefault(folder.resolve(), argument)
            if other != argument or arguments.count(argument) > 1:
                raise InputError(
                    f"{folder}: is in two groups, {other} and {argument}; a run is compared with others only"
                )


def _names(arguments: Sequence[str]) -> list[str]:
    """The last part of each argument that tells it from the others."""
    parts = [[one for one in argument.rstrip("/").split("/") if one.strip("*")] for argument in arguments]
    for depth in range(1, max(map(len, parts), default=0) + 1):
        names = ["/".join(one[-depth:]) or argument for one, argument in zip(parts, arguments, strict=True)]
        if max(Counter(names).values()) == 1:
            return names
    return list(arguments)


def _read_group(name: str, folders: Sequence[Path]) -> RunGroup:
    kept: list[MeasuredRun] = []
    left_out: list[LeftOut] = []
    for run in map(read_run, folders):
        why = _why_left_out(run)
        if why:
            left_out.append(LeftOut(run.folder, why))
        else:
            kept.append(MeasuredRun(run.folder, run.manifest, measurements(run), _limited(run)))
    if not kept:
        reasons = "; ".join(f"{one.folder.name}: {one.why}" for one in left_out)
        raise ResultError(f"no run of this group can be compared ({reasons})", path=name)
    return RunGroup(name, sorted(kept, key=lambda one: (one.manifest.created, one.manifest.run_id)), left_out)


def _limited(run: Run) -> frozenset[ClassKey]:
    if not run.manifest.calibration:
        return frozenset()
    return frozenset(row.key for row in summarise(run).classes if row.is_tester_limited)


def _why_left_out(run: Run) -> str | None:
    manifest = run.manifest
    if manifest.status != COMPLETE:
        return f"{manifest.status}: {manifest.reason or 'no reason given'}"
    if not manifest.trials.included:
        return "no iteration counts"
    return None
