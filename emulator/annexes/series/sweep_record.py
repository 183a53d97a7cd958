"""The result of a sweep as a value, and its file `sweep.json`: table, curve and JSON are made from it.

The time of a point is the median of its iterations if it was played once, with iterations as units of the interval: it
holds for this run. Of several runs it is the Hodges-Lehmann estimate of their medians, with runs as units.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from emulator.annexes.series.record import SeriesRecord
from emulator.annexes.series.run_set import RunSet
from emulator.annexes.series.sweep_grid import GridSweep, Point, apart_from_starts
from emulator.experiment.series import TurnOutcome
from emulator.results.comparison import inference
from emulator.results.comparison.interference import JobInterference, measure_interference
from emulator.results.comparison.uncertainty import readings_over
from emulator.results.run_folder.reader import Run
from emulator.results.statistics.class_summary import ClassSummary
from emulator.results.statistics.method.bootstrap import Interval, median_interval
from emulator.results.statistics.metric import Subject
from emulator.results.statistics.metrics import METRICS
from emulator.results.statistics.samples.classes import JCT, ClassKey
from emulator.results.statistics.samples.iterations import Times, measurements
from emulator.results.statistics.summary import RunSummary
from emulator.results.statistics.uncertainty import Budget
from emulator.results.verdict.judge import Outcome as Verdict
from emulator.results.verdict.judge import gravest, judge_tester
from emulator.results.verdict.session import JudgedRun, judge_run
from emulator.views.columns.figures import describe_scaling


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A value with its 95 % interval by chance; `low` and `high` are None with too few iterations or runs.

    Attributes:
        uncertainty: its budget: chance and everything else; None: it has none, such as a factor.
    """

    value: float
    low: float | None = None
    high: float | None = None
    uncertainty: Budget | None = None


class JobFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A job of the sessions of a point.

    Attributes:
        jct_ns: median of the iterations that the other jobs cover.
        factor: interference factor of the JCT: with the other jobs / alone; None: not measured.
        covered, left_out: iterations that the other jobs cover, and that they do not.
    """

    job: str
    jct_ns: float | None
    factor: Figure | None
    covered: int
    left_out: int


class PointRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a point.

    Attributes:
        values: name of the axis → value.
        folder: below that of the sweep; its runs are in it.
        runs: complete ones.
        unit: of the intervals: iterations or runs.
        jct_ns: time of an iteration.
        collective: class of `busbw_bytes_per_s`.
        verdict: by the rules of the run spec, over all runs as one; of a session the gravest of jobs and runs; None:
            it has none.
        scaling: how the runs differ from their trace; "" if they do not.
        tester_limited: why the figures describe the tester rather than the device; "" if nothing is known of it.
        problem: why a run failed; "" if none did.
        jobs: of a session; the figures of the point itself are then None.
        fairness: Jain's index of a session, see Interference.
    """

    values: Mapping[str, str]
    folder: str
    runs: int = 0
    unit: Literal["iterations", "runs"] = "iterations"
    jct_ns: Figure | None = None
    collective: str | None = None
    busbw_bytes_per_s: Figure | None = None
    verdict: Verdict | None = None
    scaling: str = ""
    tester_limited: str = ""
    problem: str = ""
    jobs: tuple[JobFigures, ...] = ()
    fairness: float | None = None


class AxisRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was varied."""

    name: str
    setting: str
    values: tuple[str, ...]


class SweepRecord(SeriesRecord, frozen=True, kw_only=True):
    """The result of a sweep, so far.

    Attributes:
        name: of what was played.
        written: when; ISO 8601 with zone.
        spec: of the first point, as plain values.
        repeat: runs of each point.
        points: in the order of the grid; one that was not played has no runs.
    """

    FILE: ClassVar[str] = "sweep.json"
    SERIES: ClassVar[str] = "sweep"
    charkha_sweep_result: Literal[1] = 1
    name: str
    written: str
    spec: Mapping[str, Any]
    axes: tuple[AxisRecord, ...]
    repeat: int
    points: tuple[PointRecord, ...]

    def __post_init__(self) -> None:
        names = {one.name for one in self.axes}
        if not names or any(one.values.keys() != names for one in self.points):
            raise ValueError("points that do not have a value of each axis")

    @property
    def verdict(self) -> Verdict | None:
        """The gravest of the points; None if the run spec has no rules."""
        found = [one.verdict for one in self.points if one.verdict is not None]
        return gravest(found) if found else None

    @property
    def left(self) -> int:
        """Number of points that lack runs."""
        return sum(one.runs < self.repeat for one in self.points)


def record_of(
    sweep: GridSweep, outcomes: Iterable[TurnOutcome], *, name: str, written: str, collective: str | None = None
) -> SweepRecord:
    """The result of a sweep from the outcomes of its runs.

    Args:
        sweep: what is played.
        outcomes: of the turns so far.
        name: of what is played.
        written: now.
        collective: whose bus bandwidth to show; None: the one that takes most time at the first point.

    Raises:
        ResultError: a run cannot be read.
    """
    found: dict[str, list[TurnOutcome]] = {point.folder: [] for point in sweep.points}
    for one in outcomes:
        found[one.turn.group].append(one)
    points: list[PointRecord] = []
    alone: dict[str, Mapping[str, Run]] = {}
    for point in sweep.points:
        points.append(_measured(point, found[point.folder], collective, alone))
        collective = collective or (points[-1].collective or "").partition(",")[0] or None
    return SweepRecord(
        name=name,
        written=written,
        spec=sweep.points[0].experiment.to_plain(),
        axes=tuple(AxisRecord(name=one.name, setting=one.path, values=one.values) for one in sweep.axes),
        repeat=sweep.repeat,
        points=tuple(points),
    )


def _of_job(one: JobInterference) -> JobFigures:
    jct = one.jct
    effect = None if jct is None else jct.effect
    return JobFigures(
        job=one.name,
        jct_ns=None if jct is None else jct.shared_ns,
        factor=None if effect is None else _with(effect.ratio, effect.interval),
        covered=one.covered,
        left_out=one.left_out,
    )


def _measured(
    point: Point, outcomes: Sequence[TurnOutcome], collective: str | None, alone: dict[str, Mapping[str, Run]]
) -> PointRecord:
    """The figures of a point; `alone` has the runs alone of the points before, by what they share."""
    sessions = [one.played for one in outcomes if one.played is not None]
    problem = next((one.problem for one in outcomes if one.problem), "")
    record = PointRecord(values=point.values, folder=point.folder, runs=len(sessions), problem=problem)
    if not sessions:
        return record
    judged = [judge_run(run) for one in sessions for run in one.jobs.values()]
    record = replace(
        record,
        unit="iterations" if len(sessions) == 1 else "runs",
        verdict=_verdict(judged, is_session=len(point.experiment.jobs) > 1),
        scaling=next(filter(None, (describe_scaling(one.summary.scaling) for one in judged)), ""),
    )
    if len(point.experiment.jobs) > 1:
        shared = apart_from_starts(point.experiment)
        solo = alone.setdefault(shared, next((one.solo for one in sessions if one.solo), {}))
        found = measure_interference([dataclasses.replace(one, solo=solo) for one in sessions])
        jobs = tuple(map(_of_job, found.jobs))
        return replace(record, tester_limited=_limits(judged, None), jobs=jobs, fairness=found.fairness)
    times = [measurements(one.run).classes for one in judged]
    first = judged[0].summary
    row = _busiest(first.classes, collective)
    busbw = None
    if row is not None and row.busbw_bytes_per_s and row.cct_p50_ns:
        busbw = _inverse(_figure(times, row.key), row.busbw_bytes_per_s * row.cct_p50_ns)
    summaries = [one.summary for one in judged]
    return replace(
        record,
        jct_ns=_stated(_figure(times, ClassKey(JCT, first.ranks)), "jct", None, summaries),
        collective=None if row is None else str(row.key),
        busbw_bytes_per_s=_stated(busbw, "busbw", None if row is None else row.key, summaries),
        tester_limited=_limits(judged, row),
    )


def _verdict(judged: Sequence[JudgedRun], *, is_session: bool) -> Verdict | None:
    if not any(one.verdict.findings for one in judged):
        return None
    if is_session:
        return gravest(one.verdict.outcome for one in judged)
    runs = RunSet.of([one.run for one in judged], summaries=[one.summary for one in judged])
    return runs.judge(runs.rules).outcome


def _busiest(rows: Sequence[ClassSummary], collective: str | None) -> ClassSummary | None:
    """The class with a bus bandwidth that takes most time, of this collective."""
    usable = [one for one in rows if one.busbw_bytes_per_s and collective in (None, one.collective)]
    return usable[0] if usable else None


def _figure(found: Sequence[Mapping[ClassKey, Times]], key: ClassKey) -> Figure | None:
    times = [one[key] for one in found if key in one]
    medians = [value for one in times if (value := one.percentile_ns(0.5))]
    if not medians:
        return None
    if len(found) == 1:
        return _with(medians[0], median_interval(times[0].time_ns, times[0].iteration))
    values = np.array(medians)
    return _with(inference.location(values), inference.location_interval(values))


def _stated(figure: Figure | None, metric: str, of: Subject, runs: Sequence[RunSummary]) -> Figure | None:
    """The same with its budget."""
    if figure is None:
        return None
    known = [one.budget for one in readings_over(METRICS[metric], runs) or () if one.subject == of]
    return replace(figure, uncertainty=next(iter(known), None))


def _with(value: float, interval: Interval | None) -> Figure:
    return Figure(value=value) if interval is None else Figure(value=value, low=interval.low, high=interval.high)


def _inverse(time: Figure | None, product: float) -> Figure | None:
    """`product` over a time: the longest time is the lowest rate."""
    if time is None:
        return None
    low, high = (None if one is None else product / one for one in (time.high, time.low))
    return Figure(value=product / time.value, low=low, high=high)


def _limits(found: Sequence[JudgedRun], row: ClassSummary | None) -> str:
    """The first thing that the tester reported in a run, and in how many of them there is one."""
    problems = [problem for one in found if (problem := _limit(one.summary, row))]
    if not problems:
        return ""
    return problems[0] + (f" ({len(problems)} of {len(found)} runs)" if len(found) > 1 else "")


def _limit(summary: RunSummary, row: ClassSummary | None) -> str:
    if problem := judge_tester(summary).doubt():
        return problem
    marked = [one for one in summary.classes if row is not None and one.key == row.key and one.is_tester_limited]
    return f"{marked[0].key} is within 10 % of the tester's own time" if marked else ""
