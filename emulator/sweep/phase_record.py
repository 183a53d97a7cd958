"""The result of a sweep over phases: the interference factor of each job, beside that of two square waves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, Literal

import msgspec
import numpy as np

from emulator.comparison.inference import Floats
from emulator.comparison.interference import (
    JobInterference,
    covered_iterations,
    measure_interference,
    window_of,
)
from emulator.planner.square_waves import Wave, expected_factors
from emulator.run_folder.reader import Run
from emulator.run_folder.schema import Part
from emulator.run_folder.session import Session
from emulator.statistics.iterations import Span, iteration_spans, summarise_iterations
from emulator.statistics.summary import summarise
from emulator.sweep.phase import PhaseProgress, PhaseSweep
from emulator.sweep.record import Figure
from emulator.verdict.tester import judge_tester
from emulator.views.figures import describe_scaling

WIDEST_GAP = 0.25
"""Between measured phases, in iterations: a wider one says nothing of the curve in between."""


class JobPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A job at a phase.

    Attributes:
        factor: interference factor of the JCT; None if it was not measured.
        expected: of square waves.
        covered, left_out: iterations that the other job covers, and that it does not.
    """

    job: str
    factor: Figure | None
    expected: float
    covered: int
    left_out: int


class PhasePoint(msgspec.Struct, frozen=True, kw_only=True):
    """A phase.

    Attributes:
        phase: asked for, in iterations of the first job alone.
        measured: what the counted iterations of the second job had, from 0 to 1: from the nearest start of an iteration
            of the first job to their own; the median. Jobs that share unequally, or stall, drift from where they began.
        fairness: Jain's index, see Interference.
    """

    phase: float
    folder: str
    sessions: int
    measured: float | None = None
    jobs: tuple[JobPoint, ...] = ()
    fairness: float | None = None
    tester_limited: str = ""
    problem: str = ""


class JobCurve(msgspec.Struct, frozen=True, kw_only=True):
    """A job over all phases.

    Attributes:
        solo_jct_ns: median alone.
        duty: share of communication in an iteration alone.
        least: the smallest factor.
        area, expected_area: under the measured curve and that of square waves, once round all phases: the mean factor
            if the phase is left to chance. None if the measured phases leave a gap of more than WIDEST_GAP.
        scaling: how its runs differ from their trace; "" if they do not.
    """

    job: str
    solo_jct_ns: float
    duty: float
    least: float | None
    area: float | None
    expected_area: float | None
    scaling: str = ""


class PhaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a sweep over phases, so far."""

    charkha_phase_sweep_result: Literal[1] = 1
    name: str
    written: str
    spec: Mapping[str, Any]
    repeat: int
    curves: tuple[JobCurve, ...]
    points: tuple[PhasePoint, ...]

    @property
    def left(self) -> int:
        """Number of phases that lack sessions."""
        return sum(one.sessions < self.repeat for one in self.points)


def phase_record(sweep: PhaseSweep, progress: PhaseProgress, *, written: str) -> PhaseRecord:
    """The result from what was played so far.

    Raises:
        ResultError: a run cannot be read.
    """
    waves = _waves(progress.solo)
    points = tuple(_point(sweep, phase, progress, waves) for phase in sweep.phases)
    return PhaseRecord(
        name=" and ".join(sweep.names),
        written=written,
        spec=sweep.experiment.to_plain(),
        repeat=sweep.repeat,
        curves=tuple(_curve(name, progress.solo[name], waves[name], points) for name in sweep.names),
        points=points,
    )


def _waves(solo: Mapping[str, Sequence[Run]]) -> dict[str, Wave]:
    """Each job alone as a square wave. Two that play the same are one: else they would drift by what is only noise."""
    plays = [(runs[0].manifest.trace.digest, runs[0].manifest.scaling) for runs in solo.values()]
    if all(one == plays[0] for one in plays):
        same = wave_of([run for runs in solo.values() for run in runs])
        return dict.fromkeys(solo, same)
    return {name: wave_of(runs) for name, runs in solo.items()}


def wave_of(runs: Sequence[Run]) -> Wave:
    """A job alone as a square wave: its median iteration, as the rank spent it that ended last."""
    found = [one for run in runs if (one := summarise_iterations(run.table(Part.ITERATIONS), run.manifest)) is not None]
    jct_ns = median(one.jct_ns for one in found)
    communication_ns = min(jct_ns, median(one.exposed_ns for one in found))
    return Wave(jct_ns - communication_ns, communication_ns)


def _point(
    sweep: PhaseSweep,
    phase: str,
    progress: PhaseProgress,
    waves: Mapping[str, Wave],
) -> PhasePoint:
    mine = [one for one in progress.played if one.phase == phase]
    sessions = [
        replace(one.session, solo={name: runs[at] for name, runs in progress.solo.items()})
        for at, one in enumerate(mine)
        if one.session is not None
    ]
    fixed = PhasePoint(
        phase=float(phase),
        folder=f"phase={phase}",
        sessions=len(sessions),
        problem=next((one.problem for one in mine if one.problem), ""),
    )
    if not sessions:
        return fixed
    found = measure_interference(sessions)
    first, second = (waves[name] for name in sweep.names)
    measured = _measured_phase(sessions, sweep.names, period_ns=first.period_ns)
    played = max(1, min(one.covered for one in found.jobs) // len(sessions))
    at = float(phase) if measured is None else measured
    expected = dict(zip(sweep.names, expected_factors(first, second, phase=at, iterations=played), strict=True))
    return msgspec.structs.replace(
        fixed,
        measured=measured,
        jobs=tuple(_job(one, expected[one.name]) for one in found.jobs),
        fairness=found.fairness,
        tester_limited=_limit([run for one in sessions for run in one.jobs.values()]),
    )


def _measured_phase(sessions: Sequence[Session], names: tuple[str, str], *, period_ns: float) -> float | None:
    apart: list[float] = []
    for session in sessions:
        first, second = (_spans(session.jobs[name]) for name in names)
        starts = np.array([one.start_ns for one in first.values()], np.int64)
        counted = covered_iterations(second, [window_of(session.jobs[names[0]])])
        for begun in (second[number].start_ns for number in counted.tolist() if number >= 0):
            after = begun - starts
            apart.append(float(after[np.argmin(np.abs(after))]))
    return median(apart) / period_ns % 1 if apart else None


def _spans(run: Run) -> dict[int, Span]:
    return iteration_spans(run.table(Part.ITERATIONS), run.manifest)


def _job(one: JobInterference, expected: float) -> JobPoint:
    effect = one.jct.effect if one.jct is not None else None
    figure = None
    if effect is not None:
        low, high = effect.interval if effect.interval is not None else (None, None)
        figure = Figure(value=effect.ratio, low=low, high=high)
    return JobPoint(job=one.name, factor=figure, expected=expected, covered=one.covered, left_out=one.left_out)


def _limit(runs: Sequence[Run]) -> str:
    problems = [problem for run in runs if (problem := judge_tester(summarise(run)).problem)]
    return f"{problems[0]} ({len(problems)} of {len(runs)} runs)" if problems else ""


def _curve(name: str, solo: Sequence[Run], wave: Wave, points: Sequence[PhasePoint]) -> JobCurve:
    mine = sorted(
        (point.measured, one.factor.value, one.expected)
        for point in points
        for one in point.jobs
        if one.job == name and one.factor is not None and point.measured is not None
    )
    phases, factors, expected = np.array(mine, np.float64).reshape(-1, 3).T
    return JobCurve(
        job=name,
        solo_jct_ns=wave.period_ns,
        duty=wave.duty,
        least=float(factors.min()) if len(factors) else None,
        area=_area(phases, factors),
        expected_area=_area(phases, expected),
        scaling=describe_scaling(solo[0].manifest.scaling),
    )


def _area(phases: Floats, factors: Floats) -> float | None:
    """Once round, by trapezoids; the phases are in order, and the first follows the last."""
    if not len(phases):
        return None
    around = np.append(phases, phases[0] + 1)
    if np.diff(around).max() > WIDEST_GAP:
        return None
    return float(np.trapezoid(np.append(factors, factors[0]), around))
