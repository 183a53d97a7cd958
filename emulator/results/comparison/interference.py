"""Effect of the jobs of a session on each other: every class of a job shared with the others, against the job alone.

The *interference factor* of a class is its time in the session over its time alone, a ratio of times as in a comparison
of two groups. With several sessions the unit of its interval is the run. With one, the unit is a stretch of consecutive
iterations: its interval holds for this session, not for the next.

Only iterations that all other jobs cover in time count: begun when each of them had begun, and over before any of them
had ended. The others are left out and counted: in them the job had the network partly to itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from emulator.planner.network.load_balance import balance_of
from emulator.results.comparison import inference
from emulator.results.comparison.inference import Floats
from emulator.results.comparison.verdicts import Effect
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.session import StoredSession
from emulator.results.statistics.method.bootstrap import MIN_ITERATIONS
from emulator.results.statistics.method.descriptive import median
from emulator.results.statistics.samples.classes import JCT, ClassKey
from emulator.results.statistics.samples.iterations import Measurements, Span, Times, iteration_spans, measurements
from emulator.trace.meaning.model import IntArray

STRETCHES = 20
"""Units of the interval of one session, at most. Consecutive iterations are not independent, long stretches nearly so;
from 20 on, more and shorter ones hardly narrow the interval.
"""


@dataclass(frozen=True, slots=True)
class ClassInterference:
    """A class of a job.

    Attributes:
        solo_ns, shared_ns: median alone, and in iterations that the others cover; None without any.
        solo_samples, shared_samples: measurements behind them.
        effect: the interference factor; None if a side has no measurement.
    """

    key: ClassKey
    solo_ns: float | None
    shared_ns: float | None
    solo_samples: int
    shared_samples: int
    effect: Effect | None


@dataclass(frozen=True, slots=True)
class JobInterference:
    """A job.

    Attributes:
        classes: JCT first, then those that take most time alone.
        covered, left_out: measured iterations that count, and that another job did not cover, in all sessions.
        has_solo: it was played alone.
    """

    name: str
    classes: Sequence[ClassInterference]
    covered: int
    left_out: int
    has_solo: bool

    @property
    def jct(self) -> ClassInterference | None:
        """Of whole iterations; None without any."""
        return next((one for one in self.classes if one.key.collective == JCT), None)


@dataclass(frozen=True, slots=True)
class Interference:
    """All jobs of a session, or of sessions that repeat each other.

    Attributes:
        sessions: how many; with one, intervals have stretches of iterations as units.
        fairness: Jain's index of the jobs' normalised rates, 1 / interference factor of the JCT: the share of its rate
            alone that each job keeps. 1: all jobs lose alike; 1 / jobs: one has everything. None if a job has no
            factor. Source: Jain, Chiu and Hawe, DEC-TR-301 (1984).
    """

    jobs: Sequence[JobInterference]
    sessions: int
    fairness: float | None


def measure_interference(sessions: Sequence[StoredSession]) -> Interference:
    """Compare the jobs of sessions with themselves alone.

    Args:
        sessions: at least one; all of the same jobs.

    Raises:
        ResultError: a run cannot be read.
    """
    names = list(sessions[0].jobs)
    jobs = [_job(name, sessions) for name in names]
    factors = [one.jct.effect.ratio for one in jobs if one.jct is not None and one.jct.effect is not None]
    is_whole = len(factors) == len(jobs) > 1
    return Interference(jobs, len(sessions), balance_of(1 / np.array(factors)).jain if is_whole else None)


def window_of(run: Run) -> Span | None:
    """From the first start to the last end of its iterations, warm-up included; None if it completed none."""
    spans = iteration_spans(run.table(RunTable.ITERATIONS), run.manifest).values()
    return Span(min(one.start_ns for one in spans), max(one.end_ns for one in spans)) if spans else None


def covered_iterations(spans: Mapping[int, Span], windows: Sequence[Span | None]) -> IntArray:
    """The iterations that lie within every window; none if a window is missing."""
    inside = [
        number
        for number, one in spans.items()
        if all(each is not None and each.start_ns <= one.start_ns and one.end_ns <= each.end_ns for each in windows)
    ]
    return np.array(inside, np.int64)


def factor(solo: Sequence[Times], shared: Sequence[Times]) -> Effect | None:
    """The interference factor of a class, with its interval; None if a side has no measurement.

    Args:
        solo: of each run alone.
        shared: of each run in a session.
    """
    is_by_run = min(len(solo), len(shared)) >= inference.MIN_RUNS
    baseline, other = (_units(side, is_by_run=is_by_run) for side in (solo, shared))
    if not len(baseline) or not len(other):
        return None
    is_enough = is_by_run or min(len(baseline), len(other)) >= MIN_ITERATIONS
    return Effect(inference.ratio(baseline, other), inference.ratio_interval(baseline, other) if is_enough else None)


def _units(runs: Sequence[Times], *, is_by_run: bool) -> Floats:
    """One number per unit: the median of each run, or of each stretch of iterations of every run."""
    found = [one.percentile_ns(0.5) for one in (runs if is_by_run else [part for run in runs for part in _cut(run)])]
    return np.array([one for one in found if one], np.float64)


def _cut(run: Times) -> list[Times]:
    """A run in stretches of consecutive iterations; the last ones may be empty."""
    return [run.only(part) for part in np.array_split(np.unique(run.iteration), STRETCHES)]


def _job(name: str, sessions: Sequence[StoredSession]) -> JobInterference:
    shared, covered, left_out = [], 0, 0
    for session in sessions:
        found, count = _shared(name, session)
        shared.append(found)
        covered, left_out = covered + count.covered, left_out + count.left_out
    solo = [measurements(session.solo[name]) for session in sessions if name in session.solo]
    keys = {key for one in (*solo, *shared) for key in one.classes if key.takes_time}
    classes = [_class(key, solo, shared) for key in keys]
    return JobInterference(name, sorted(classes, key=_order), covered, left_out, bool(solo))


@dataclass(frozen=True, slots=True)
class _Coverage:
    covered: int
    left_out: int


def _shared(name: str, session: StoredSession) -> tuple[Measurements, _Coverage]:
    """The measurements of a job in iterations that the others cover."""
    run = session.jobs[name]
    found = measurements(run)
    jct = found.classes.get(ClassKey(JCT, run.manifest.trace.ranks))
    measured = set() if jct is None else set(jct.iteration.tolist())
    spans = iteration_spans(run.table(RunTable.ITERATIONS), run.manifest)
    windows = [window_of(other) for other_name, other in session.jobs.items() if other_name != name]
    counted = covered_iterations({number: spans[number] for number in measured}, windows)
    kept = {key: times.only(counted) for key, times in found.classes.items()}
    return Measurements(kept, found.incomplete), _Coverage(len(counted), len(measured) - len(counted))


def _class(key: ClassKey, solo: Sequence[Measurements], shared: Sequence[Measurements]) -> ClassInterference:
    sides = [[one.classes[key] for one in side if len(one.classes.get(key, ()))] for side in (solo, shared)]
    medians = [median(np.concatenate([one.time_ns for one in side])) if side else None for side in sides]
    counts = [sum(map(len, side)) for side in sides]
    return ClassInterference(key, medians[0], medians[1], counts[0], counts[1], factor(*sides))


def _order(one: ClassInterference) -> tuple[bool, float, ClassKey]:
    return one.key.collective != JCT, -(one.solo_ns or one.shared_ns or 0) * max(one.solo_samples, 1), one.key
