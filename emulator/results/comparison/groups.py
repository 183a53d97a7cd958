"""Groups of runs: repetitions with one device version, named on the command line by a folder or a pattern."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from emulator.errors import InputError, ResultError
from emulator.results.comparison.causes import counted
from emulator.results.run_folder.manifest import COMPLETE, KERNEL_OBSERVATION_POINT, Manifest
from emulator.results.run_folder.reader import of_session, read_run
from emulator.results.run_folder.session import is_session
from emulator.results.run_folder.store import find_runs, firmware_of, is_run_folder
from emulator.results.statistics.samples.classes import JCT, ClassKey
from emulator.results.statistics.samples.iterations import Measurements, measurements
from emulator.results.statistics.summary import RunSummary, summarise
from emulator.results.statistics.uncertainty import Budget
from emulator.visible import visible


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A run and its times.

    Attributes:
        tester_percent: what of the time of a class, JCT included, the tester adds, see ClassSummary.
        burst_percent: by how much the network's part of a class is faster than its ports' rates allow.
        uncertainty: of the median times of a class, JCT included: name of the figure → its budget.
        counted: what happened to its packets, see causes.py.
    """

    folder: Path
    manifest: Manifest
    measurements: Measurements
    tester_percent: Mapping[ClassKey, float] = field(default_factory=dict)
    burst_percent: Mapping[ClassKey, float] = field(default_factory=dict)
    uncertainty: Mapping[ClassKey, Mapping[str, Budget]] = field(default_factory=dict)
    counted: Mapping[str, int] = field(default_factory=dict)

    @property
    def began_s(self) -> float:
        """When it began, s since 1970."""
        return datetime.fromisoformat(self.manifest.created).timestamp()


@dataclass(frozen=True, slots=True)
class ExcludedRun:
    """A run that does not count, and the reason."""

    folder: Path
    reason: str


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Runs that repeat each other.

    Attributes:
        name: label in tables, unique within a comparison.
        runs: the runs that count, oldest first; at least one.
        excluded: the other runs.
    """

    name: str
    runs: Sequence[MeasuredRun]
    excluded: Sequence[ExcludedRun] = ()

    @property
    def attempted(self) -> int:
        """Number of runs, including excluded ones."""
        return len(self.runs) + len(self.excluded)


def read_groups(arguments: Sequence[str]) -> list[RunGroup]:
    """Read the group of every argument, in that order.

    Args:
        arguments: run folders, folders of run folders, or glob patterns of either.

    Raises:
        InputError: an argument matches no run folder, or a run is in two groups.
        ResultError: a run folder is damaged, or a group has no complete run.
    """
    folders = [find_group(argument) for argument in arguments]
    _refuse_shared_runs(arguments, folders)
    names = [visible(name) for name in short_names(arguments)]
    return _read_groups(zip(names, folders, strict=True))


def groups_of(folders: Mapping[str, Sequence[Path]]) -> list[RunGroup]:
    """Read groups that are given as the run folders of each name, in that order.

    Raises:
        InputError: a run is in two groups.
        ResultError: as for `read_groups`.
    """
    _refuse_shared_runs(list(folders), list(folders.values()))
    return _read_groups(folders.items())


def groups_to_compare(arguments: Sequence[str], *, by_firmware: bool) -> list[RunGroup]:
    """Read at least two groups of runs.

    Args:
        arguments: as for `read_groups`.
        by_firmware: split a single group by firmware.

    Raises:
        InputError: there is only one group, or as for `read_groups`.
        ResultError: as for `read_groups`.
    """
    groups = read_groups(arguments)
    if by_firmware and len(groups) == 1:
        groups = split_by_firmware(groups[0])
    if len(groups) < 2:
        hint = "all its runs have the same firmware" if by_firmware else "or split one by firmware with --trend"
        raise InputError(f"{arguments[0]}: a comparison needs two groups: give another one, {hint}")
    return groups


def split_by_firmware(group: RunGroup) -> list[RunGroup]:
    """One group per firmware, in the order of the first run of each; the first group keeps the excluded runs."""
    versions: dict[str, list[MeasuredRun]] = {}
    for run in group.runs:
        versions.setdefault(visible(firmware_of(run.manifest) or "no firmware named"), []).append(run)
    first, *others = (RunGroup(name, runs) for name, runs in versions.items())
    return [replace(first, excluded=group.excluded), *others]


def find_group(argument: str) -> list[Path]:
    """The run folders that an argument matches, each once.

    Raises:
        InputError: there are none, or they are those of several jobs of a session.
    """
    path = Path(argument)
    roots = [path] if path.exists() else _matching(argument)
    found = {folder.resolve(): folder for root in roots for folder in _runs_at(root)}
    for root in roots:
        _refuse_sessions(root, found.values())
    if not found:
        problem = "it contains no run folder" if roots else "neither a run folder nor a pattern that matches one"
        raise InputError(f"{argument}: {problem}; `charkha runs list DIR` lists run folders")
    return list(found.values())


def _refuse_sessions(root: Path, folders: Iterable[Path]) -> None:
    """The runs of a session are of different jobs, and do not repeat each other."""
    for folder in folders:
        for parent in (folder.parent, folder.parent.parent):
            if is_session(parent) and parent.is_relative_to(root):
                raise InputError(f"{parent}: {of_session(parent)}, or one job of several sessions: '*/job=NAME'")


def take_turns(baseline: Sequence[MeasuredRun], other: Sequence[MeasuredRun]) -> bool:
    """Whether the runs of two groups were taken in turns, two by two: A B A B, or A B B A."""
    if len(baseline) != len(other):
        return False
    groups = enumerate((baseline, other))
    began = [(run.began_s, side) for side, runs in groups for run in runs]
    if len({when for when, _ in began}) < len(began):
        return False
    sides = [side for _, side in sorted(began)]
    return all(first != second for first, second in zip(sides[::2], sides[1::2], strict=True))


def are_apart(baseline: Sequence[MeasuredRun], other: Sequence[MeasuredRun]) -> bool:
    """Whether all runs of one group, of two or more each, are older than all of the other."""
    first, second = (sorted(run.manifest.created for run in runs) for runs in (baseline, other))
    return min(len(first), len(second)) > 1 and (first[-1] < second[0] or second[-1] < first[0])


def _matching(pattern: str) -> list[Path]:
    # Path.glob does not accept absolute patterns.
    return [Path(one) for one in sorted(glob.glob(pattern, recursive=True))]  # noqa: PTH207


def _runs_at(root: Path) -> Iterable[Path]:
    return [root] if is_run_folder(root) else find_runs(root)


def _refuse_shared_runs(arguments: Sequence[str], groups: Sequence[Sequence[Path]]) -> None:
    owner: dict[Path, int] = {}
    for number, folders in enumerate(groups):
        for folder in folders:
            other = owner.setdefault(folder.resolve(), number)
            if other != number:
                raise InputError(
                    f"{folder}: is in two groups, {arguments[other]} and {arguments[number]}; give groups without "
                    f"common runs"
                )


def _refuse_copies(groups: Sequence[RunGroup]) -> None:
    """Copies of a run are one trial: counted as several they would make any difference significant."""
    first: dict[str, Path] = {}
    for group in groups:
        for run in group.runs:
            other = first.setdefault(run.manifest.run_id, run.folder)
            if other != run.folder:
                raise InputError(
                    f"{run.folder}: a copy of {other} (run id {run.manifest.run_id}); a copy does not count as a "
                    f"run: remove it, or play another run"
                )


def _read_groups(named: Iterable[tuple[str, Sequence[Path]]]) -> list[RunGroup]:
    groups = [_read_group(name, folders) for name, folders in named]
    _refuse_copies(groups)
    return groups


def short_names(arguments: Sequence[str]) -> list[str]:
    """Names of groups: the shortest ends of the arguments that all differ; without any, the arguments themselves."""
    parts = [[part for part in argument.rstrip("/").split("/") if part.strip("*")] for argument in arguments]
    for depth in range(1, max(map(len, parts), default=0) + 1):
        names = ["/".join(one[-depth:]) or argument for one, argument in zip(parts, arguments, strict=True)]
        if max(Counter(names).values()) == 1:
            return names
    return list(arguments)


def _read_group(name: str, folders: Sequence[Path]) -> RunGroup:
    kept: list[MeasuredRun] = []
    excluded: list[ExcludedRun] = []
    for run in map(read_run, folders):
        reason = _reason_to_exclude(run.manifest)
        if reason:
            excluded.append(ExcludedRun(run.folder, reason))
        else:
            measured = measurements(run)
            is_stamped = run.manifest.observation_point == KERNEL_OBSERVATION_POINT
            is_needed = run.manifest.calibration or measured.network or is_stamped
            known = _known(summarise(run), run.manifest.trace.ranks) if is_needed else ({}, {}, {})
            kept.append(MeasuredRun(run.folder, run.manifest, measured, *known, counted(run)))
    if not kept:
        reasons = "; ".join(f"{one.folder}: {one.reason}" for one in excluded)
        raise ResultError(f"no run of this group can be compared ({reasons})", path=name)
    return RunGroup(name, sorted(kept, key=lambda one: (one.manifest.created, one.manifest.run_id)), excluded)


def _known(
    summary: RunSummary, ranks: int
) -> tuple[Mapping[ClassKey, float], Mapping[ClassKey, float], Mapping[ClassKey, Mapping[str, Budget]]]:
    """`tester_percent`, `burst_percent` and `uncertainty` of a run."""
    tester = {row.key: row.tester_percent for row in summary.classes if row.tester_percent is not None}
    budgets = {row.key: row.uncertainty for row in summary.classes}
    if summary.iteration is not None and summary.iteration.jct_ns:
        jct = ClassKey(JCT, ranks)
        budgets[jct] = summary.iteration.uncertainty
        if (added_ns := summary.tester_ns) is not None:
            tester[jct] = 100 * added_ns / summary.iteration.jct_ns
    faster = {row.key: (row.network_ideal_percent or 0.0) - 100 for row in summary.classes}
    return tester, {key: percent for key, percent in faster.items() if percent > 0}, budgets


def _reason_to_exclude(manifest: Manifest) -> str | None:
    if manifest.status != COMPLETE:
        return f"{manifest.status}: {manifest.reason or 'no reason given'}"
    if not manifest.trials.included:
        return "no iteration counts"
    return None
