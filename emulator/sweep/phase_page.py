"""The report of a sweep over phases: the curve of each job beside that of square waves, and a row per phase."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import yaml

from emulator.sweep.phase_record import JobPoint, PhaseRecord
from emulator.sweep.phase_table import curve_facts, phase_columns, phase_headline
from emulator.sweep.table import note
from emulator.views.figures import count_of
from emulator.views.html.page.document import Chart, Facts, Page, Section, table_of
from emulator.views.html.page.pictures import Picture, Rows

_EXPECTED = (
    "Dashed: two square waves with the duties of the jobs alone. Each job computes, then communicates at the whole "
    "rate of the port, or at half of it while both do. The model has nothing else of the jobs or the network."
)


def phase_page(record: PhaseRecord) -> Page:
    """The page."""
    return Page(
        title=f"{record.name} · charkha sweep",
        heading=phase_headline(record),
        sentence=" ".join(f"{name}: {text}." for name, text in curve_facts(record)),
        labels=[record.written[:16].replace("T", " "), count_of(len(record.points), "phase")],
        warnings=list(_warnings(record)),
        sections=[
            Section("curve", "Curve", [_curve(record)], is_wide=True),
            Section(
                "points", "Phases", [table_of("results", "Phases", phase_columns(record), record.points)], is_wide=True
            ),
            _method(record),
        ],
        footer="Written by charkha sweep. The folder of each phase holds sessions with reports of their own.",
    )


def _warnings(record: PhaseRecord) -> Iterator[str]:
    if limited := [one for one in record.points if one.tester_limited]:
        first = f"at {limited[0].phase:g}, {note(limited[0])}"
        yield f"{len(limited)} of {count_of(len(record.points), 'phase')} are tester-limited; {first}."
    if scaled := [f"job {one.job}: {one.scaling}" for one in record.curves if one.scaling]:
        yield f"Scaled: {'; '.join(scaled)}. The results are those of the scaled runs."
    if record.left:
        yield f"{record.left} of {count_of(len(record.points), 'phase')} lack a complete session."


def _curve(record: PhaseRecord) -> Chart:
    points, expected = Rows(), Rows()
    shown = [(point, one) for point in record.points for one in point.jobs if point.measured is not None]
    lowest, highest = _edges(one for _, one in shown)
    for point, one in shown:
        expected.add(job=one.job, phase=point.measured, factor=one.expected)
        if one.factor is not None:
            value = one.factor.value
            low, high = max(one.factor.low or value, lowest), min(one.factor.high or value, highest)
            row = {"factor": value, "low": low, "high": high, "expected": one.expected}
            points.add(job=one.job, phase=point.measured, asked=point.phase, **row)
    units = "runs" if record.repeat > 1 else "stretches of iterations of a session"
    return Chart(
        "phase",
        "Interference over the phase",
        f"Points: JCT in the session over JCT alone. Lines up and down: 95 % interval, units: {units}; one that leaves "
        f"the picture is cut, the table has it whole. {_EXPECTED}",
        "Interference factor of both jobs over the phase, with the curve of two square waves; see the table.",
        Picture("sweep_phase", {"points": points.columns, "expected": expected.columns}),
    )


def _edges(jobs: Iterable[JobPoint]) -> tuple[float, float]:
    """Of the picture: all points and what was expected, with a margin: one wide interval must not flatten it."""
    drawn = [value for one in jobs for value in (one.expected, one.factor.value if one.factor else one.expected)]
    margin = (max(drawn, default=1.0) - min(drawn, default=1.0)) / 4
    return min(drawn, default=1.0) - margin, max(drawn, default=1.0) + margin


def _method(record: PhaseRecord) -> Section:
    facts = [
        ("Counted", "iterations of a job covered in time by the other one; the others are excluded"),
        ("Phase", "measured: of the counted iterations; jobs that stall drift from where they were told to begin"),
        ("Mean over all phases", "area under the curve over one cycle (trapezoids), measured and of square waves"),
        ("Run spec", yaml.safe_dump(dict(record.spec), sort_keys=False)),
    ]
    return Section("method", "Method", [Facts("method-facts", "Sweep", [*curve_facts(record), *facts])])
