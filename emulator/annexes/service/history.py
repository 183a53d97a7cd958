"""What the run folders of finished runs say: facts of one, a comparison of groups, one spec over time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pyarrow.compute as pc

from emulator.annexes.service.model import Progress, Refusal, Run, TrendPoint
from emulator.errors import ResultError
from emulator.results.comparison.comparability import check_comparability
from emulator.results.comparison.groups import groups_of
from emulator.results.comparison.verdicts import ComparisonRules, GroupComparison, compare
from emulator.results.run_folder.manifest import RunFigures
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.session import is_session
from emulator.results.run_folder.store import find_runs, firmware_of, is_run_folder, stored_run
from emulator.results.statistics.method.distribution import distributions
from emulator.results.statistics.samples.iterations import measurements
from emulator.results.verdict.judge import Outcome, judge
from emulator.results.verdict.rules import EXAMPLE, Rules, load_rules, rules_of
from emulator.views.columns.figures import count_of
from emulator.views.columns.result_columns import RunResult, result_of
from emulator.views.html.facts import PageFacts, read_facts
from emulator.views.html.page.document import Page, PageSection
from emulator.views.html.sections.over_time import TimedMedian, over_time

_LOOK_S = 1.0
"""Shortest time between two looks at a run that plays, s."""
_SHARE = 0.03
"""Most of a core that these looks take; as for a live page."""
TREND_CLASSES = 8
"""Classes of a trend: the iteration (JCT), and those that take most time."""


def result_of_run(run: Run, folder: Path) -> RunResult:
    """What lists show of a run: of a session, the gravest verdict, and what its first job was played on.

    Args:
        run: of the service.
        folder: of its results; it need not exist.
    """
    is_one_run = is_run_folder(folder)
    runs = [folder] if is_one_run else list(find_runs(folder)) if folder.is_dir() else []
    found = result_of(stored_run(runs[0]).manifest) if runs else RunResult(profile=run.profile)
    verdict = None if run.verdict is None else Outcome(run.verdict)
    return replace(found, verdict=verdict, figures=found.figures if is_one_run else RunFigures())


class ProgressReader:
    """Looks at the folders of runs that play, so seldom that this takes a small share of a core."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float, Progress | None]] = {}
        """By device: its run, when to look again, and what was seen."""

    def of(self, run: Run, folder: Path) -> Progress | None:
        """How far a run is; None: no measurement has begun.

        Args:
            run: that plays.
            folder: of its results; it need not exist.
        """
        number, due_s, progress = self._seen.get(run.dut, (None, 0.0, None))
        began_s = time.monotonic()
        if number != run.id or began_s >= due_s:
            progress = progress_of(folder)
            took_s = time.monotonic() - began_s
            self._seen[run.dut] = run.id, began_s + max(_LOOK_S, took_s / _SHARE), progress
        return progress


def progress_of(folder: Path) -> Progress | None:
    """How far a run is: of a session, its job that ends last. None: no measurement has begun, or all has ended."""
    runs = [folder] if is_run_folder(folder) else list(find_runs(folder)) if folder.is_dir() else []
    found = [one for one in map(_progress, runs) if one is not None]
    return max(found, key=lambda one: (one.left_s is None, one.left_s), default=None)


def _progress(folder: Path) -> Progress | None:
    try:
        run = read_run(folder)
        times = run.table(RunTable.ITERATIONS, ["start_ns", "end_ns"])
    except ResultError:  # its files are being renamed
        return None
    planned, trials = run.manifest.parameters.get("iterations"), run.manifest.trials
    if run.closed or planned is None or not isinstance(planned.value, int):
        return None
    played, left_s = trials.included + trials.warmup, None
    if played:
        took_ns = pc.max(times["end_ns"]).as_py() - pc.min(times["start_ns"]).as_py()
        left_s = took_ns / played * max(0, planned.value - trials.included) / 1e9
    return Progress(done=trials.included, planned=planned.value, left_s=left_s)


def compare_folders(groups: Mapping[str, Sequence[Path]], *, force: bool) -> GroupComparison:
    """Groups of runs, class by class, against the first group.

    Raises:
        Refusal: they are not comparable, and the comparison is not forced.
        InputError: a run is in two groups, is no run, or is damaged.
    """
    read = groups_of(groups)
    comparability = check_comparability(read)
    if comparability.refused and not force:
        raise Refusal(comparability.refusal, status=409)
    return compare(read, comparability, ComparisonRules())


def judged(folder: Path, rules: Rules | None) -> PageFacts:
    """The facts of a run, judged by other rules; None: its own, or the example, as `charkha runs judge` has it.

    Raises:
        ResultError: it is no run, or is damaged.
    """
    run = read_run(folder)
    facts = read_facts(run)
    return replace(facts, verdict=judge(facts.summary, rules or rules_of(run) or load_rules(EXAMPLE)))


def trend_of(runs: Sequence[Run], folders: Sequence[Path]) -> list[TrendPoint]:
    """The times of one spec over time, oldest first.

    Args:
        runs: complete ones of one spec on one device, newest first.
        folders: of these.
    """
    pairs = zip(reversed(runs), reversed(folders), strict=True)
    return [point for run, folder in pairs if not is_session(folder) for point in _points(run, folder)]


def _points(run: Run, folder: Path) -> Iterator[TrendPoint]:
    firmware, found = _measured(folder)
    assert run.started is not None
    for kind, samples, figures in found:
        p50, low, high = figures
        yield TrendPoint(
            run=run.id,
            started=run.started,
            firmware=firmware,
            kind=kind,
            samples=samples,
            p50_ns=p50,
            low_ns=low,
            high_ns=high,
        )


@lru_cache(maxsize=512)
def _measured(
    folder: Path,
) -> tuple[str | None, Sequence[tuple[str, int, tuple[float | None, float | None, float | None]]]]:
    """A closed run folder does not change."""
    run = read_run(folder)
    found = []
    for one in distributions(measurements(run))[:TREND_CLASSES]:
        interval = one.median_interval_ns
        low, high = (None, None) if interval is None else (interval.low, interval.high)
        found.append((str(one.key), one.samples, (one.p50_ns, low, high)))
    return firmware_of(run.manifest), found


def trend_page(points: Sequence[TrendPoint], *, dut: str, name: str) -> Page:
    """One spec on one device over time, as a page."""
    chart = over_time(
        [
            TimedMedian(
                str(one.run),
                one.started,
                one.firmware or "",
                one.kind,
                one.samples,
                p50_ns=one.p50_ns,
                low_ns=one.low_ns,
                high_ns=one.high_ns,
            )
            for one in points
        ],
        margin=ComparisonRules().margin,
    )
    runs = len({one.run for one in points})
    return Page(
        title=f"{name} on {dut} · charkha",
        heading=f"{name} on {dut}",
        sentence=f"{count_of(runs, 'complete run')} of the same run spec, oldest first. Whether versions differ is "
        "decided by a comparison, not by this picture.",
        labels=list(dict.fromkeys(one.firmware for one in points if one.firmware)),
        warnings=[],
        sections=[PageSection("over-versions", "Trend", [chart], is_wide=True)],
        footer="Written by charkha serve from its run folders.",
    )
