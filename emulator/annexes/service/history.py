"""What the run folders of finished runs say: facts of one, a comparison of groups, one spec over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from emulator.annexes.service.model import Refusal, Run, TrendPoint
from emulator.results.comparison.comparability import check_comparability
from emulator.results.comparison.groups import groups_of
from emulator.results.comparison.verdicts import ComparisonRules, GroupComparison, compare
from emulator.results.run_folder.manifest import RunFigures
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.session import is_session
from emulator.results.run_folder.store import find_runs, firmware_of, is_run_folder, stored_run
from emulator.results.statistics.method.distribution import distributions
from emulator.results.statistics.samples.iterations import measurements
from emulator.results.verdict.judge import Outcome
from emulator.views.columns.figures import count_of
from emulator.views.columns.result_columns import RunResult, result_of
from emulator.views.html.page.document import Page, PageSection
from emulator.views.html.sections.over_time import TimedMedian, over_time

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
