"""The result of a sweep over phases for a terminal: a row per phase, then the curve of each job in figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from emulator.sweep.phase_record import JobCurve, JobPoint, PhasePoint, PhaseRecord
from emulator.sweep.record import Figure
from emulator.sweep.table import interval_cell, note_column
from emulator.views.columns import Column, bold
from emulator.views.figures import NONE, count_of, duration_cell, percent_cell
from emulator.views.terminal.table import FittedTable, facts_grid
from emulator.visible import visible


def phase_columns(record: PhaseRecord) -> list[Column[PhasePoint]]:
    """Phase, then three columns per job, then what a reader must know."""
    jobs = [column for curve in record.curves for column in _of_job(curve.job)]
    return [*_BEFORE, *jobs, *_AFTER]


_BEFORE: tuple[Column[PhasePoint], ...] = (
    Column(
        "phase",
        "start of the second job after the first, in solo iterations of the first",
        cell=lambda one: f"{one.phase:g}",
    ),
    Column(
        "measured",
        "median of the counted iterations of the second job: from the nearest start of an iteration of the first",
        cell=lambda one: NONE if one.measured is None else f"{one.measured:.3f}",
        sacrifice=1,
    ),
)
_AFTER: tuple[Column[PhasePoint], ...] = (
    Column(
        "fairness",
        "Jain's index of the rates that the jobs keep: 1 / factor of each",
        cell=lambda one: NONE if one.fairness is None else f"{one.fairness:.4f}",
        sacrifice=3,
    ),
    note_column(PhasePoint),
)


def _of_job(name: str) -> list[Column[PhasePoint]]:
    def job(point: PhasePoint) -> JobPoint | None:
        return next((one for one in point.jobs if one.job == name), None)

    def factor(point: PhasePoint) -> Figure | None:
        one = job(point)
        return None if one is None else one.factor

    return [
        Column(
            f"{name}:\nfactor",
            "interference factor of the JCT: shared / alone",
            cell=lambda point: NONE if (one := factor(point)) is None else f"{one.value:.3f}",
            title=f"{name}: factor",
            style=bold,
        ),
        Column(
            f"{name}:\n95 % interval",
            "of the factor",
            cell=lambda point: interval_cell(factor(point), "{:.3f}".format),
            title=f"{name}: 95 % interval",
            sacrifice=2,
        ),
        Column(
            f"{name}:\nexpected",
            "of two square waves with the duties of the jobs alone, at the measured phase",
            cell=lambda point: NONE if (one := job(point)) is None else f"{one.expected:.3f}",
            title=f"{name}: expected",
        ),
        Column(
            f"{name}:\nn",
            "iterations covered by the other job, and those excluded",
            cell=lambda point: NONE if (one := job(point)) is None else f"{one.covered}+{one.left_out}",
            title=f"{name}: n",
            sacrifice=4,
        ),
    ]


def phase_headline(record: PhaseRecord) -> str:
    """What was moved against what, and how much of it is played."""
    first, second = (one.job for one in record.curves)
    each = f", {count_of(record.repeat, 'session')} each" if record.repeat > 1 else ""
    left = f"; {record.left} of {count_of(len(record.points), 'phase')} lack a complete session" if record.left else ""
    return f"{second} against {first} over {count_of(len(record.points), 'phase')}{each}{left}"


def curve_facts(record: PhaseRecord) -> Iterator[tuple[str, str]]:
    """(job, its curve in figures)."""
    for curve in record.curves:
        yield f"Job {curve.job}", ", ".join(_figures(curve))


def _figures(curve: JobCurve) -> Iterator[str]:
    if curve.scaling:
        yield f"scaled: {curve.scaling}"
    yield f"alone {duration_cell(curve.solo_jct_ns)}, of it {percent_cell(curve.duty)} exposed communication"
    if curve.least is not None:
        yield f"smallest factor {curve.least:.3f}"
    if curve.area is not None and curve.expected_area is not None:
        off = 100 * (curve.area / curve.expected_area - 1)
        yield f"mean over all phases {curve.area:.3f}, of square waves {curve.expected_area:.3f} ({off:+.1f} %)"


def render_phases(record: PhaseRecord, folder: Path) -> Sequence[RenderableType]:
    """The table, the curves, and where everything is."""
    return [
        Text(visible(phase_headline(record)), style="bold"),
        Text(),
        FittedTable(phase_columns(record), record.points),
        Text(),
        facts_grid(curve_facts(record)),
        f"Folder of the sweep, with report.html: {visible(str(folder))}",
    ]
