"""The report of a sweep: the curves over the setting, a row per point, and what was played."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from emulator.annexes.series.sweep_record import Figure, PointRecord, SweepRecord
from emulator.annexes.series.sweep_table import columns_of, headline, note
from emulator.units import format_duration
from emulator.views.columns.figures import count_of
from emulator.views.html.page.document import Block, Chart, Facts, Page, PageSection, table_of
from emulator.views.html.page.pictures import Picture, Rows

_GIGA = 1e9


def sweep_page(record: SweepRecord) -> Page:
    """The page."""
    return Page(
        title=f"{record.name} · charkha sweep",
        heading=headline(record),
        sentence=_sentence(record),
        labels=[record.written[:16].replace("T", " "), count_of(len(record.points), "point")],
        warnings=list(_warnings(record)),
        sections=[
            PageSection("curve", "Curves", list(_curves(record)), is_wide=True),
            _points(record),
            _method(record),
        ],
        footer="Written by charkha sweep. The folder of each point holds run folders with their own data.",
    )


def _sentence(record: SweepRecord) -> str:
    if any(one.jobs for one in record.points):
        return _worst(record)
    timed = [(one.jct_ns.value, one) for one in record.points if one.jct_ns is not None]
    if not timed:
        return "No point has a complete run."
    low, fastest = min(timed, key=lambda pair: pair[0])
    high, slowest = max(timed, key=lambda pair: pair[0])
    return (
        f"An iteration takes {format_duration(low)} at {_name(fastest)}, the fastest of "
        f"{count_of(len(timed), 'point')}, and {format_duration(high)} at {_name(slowest)}, the slowest."
    )


def _worst(record: SweepRecord) -> str:
    """The largest interference factor of a session of several jobs."""
    factors = [(job.factor.value, job.job, one) for one in record.points for job in one.jobs if job.factor is not None]
    if not factors:
        return "No point has a job that was measured both alone and with the others."
    value, job, point = max(factors, key=lambda one: one[0])
    return f"Job {job} takes {value:.3f} times as long as alone at {_name(point)}: the largest factor of all points."


def _name(point: PointRecord) -> str:
    return ", ".join(f"{name}={value}" for name, value in point.values.items())


def _warnings(record: SweepRecord) -> Iterator[str]:
    limited = [one for one in record.points if one.tester_limited]
    if limited:
        yield (
            f"{len(limited)} of {count_of(len(record.points), 'point')} are tester-limited: the tester, not the "
            f"device, determined their figures."
        )
    if scaled := {one.scaling for one in record.points if one.scaling}:
        yield f"Scaled: {'; '.join(sorted(scaled))}. The results are those of the scaled runs."
    if record.left:
        yield f"{record.left} of {count_of(len(record.points), 'point')} lack a complete run."


def _curves(record: SweepRecord) -> Iterator[Block]:
    first, *others = record.axes
    about = f"Over {first.name} ({first.setting}). Lines up and down: 95 % interval of a point. {_units(record)}"
    about += f" Colours: {' and '.join(one.name for one in others)}." if others else ""
    jct, busbw, factors = Rows(), Rows(), Rows()
    for one in record.points:
        series = ", ".join(f"{axis.name}={one.values[axis.name]}" for axis in others) or "JCT"
        _add(jct, one, one.values[first.name], series, one.jct_ns, 1.0)
        for job in one.jobs:
            alongside = f"job {job.job}" + (f", {series}" if others else "")
            _add(factors, one, one.values[first.name], alongside, job.factor, 1.0)
        of_class = series if others else (one.collective or "").partition(",")[0]
        _add(busbw, one, one.values[first.name], of_class, one.busbw_bytes_per_s, _GIGA)
    if jct.columns:
        yield Chart(
            "jct",
            f"JCT over {first.name}",
            about,
            "Time of an iteration at every point, with its interval; the numbers are in the table below.",
            Picture("sweep_jct", {"points": jct.columns}),
        )
    if busbw.columns:
        yield Chart(
            "busbw",
            f"Bus bandwidth over {first.name}",
            about,
            "Bus bandwidth of the class at every point, with its interval; the numbers are in the table below.",
            Picture("sweep_busbw", {"points": busbw.columns}),
        )

    if factors.columns:
        yield Chart(
            "factors",
            f"Interference factor over {first.name}",
            about,
            "Time of an iteration with the other jobs over that alone; the numbers are in the table below.",
            Picture("sweep_factor", {"points": factors.columns}),
        )


def _units(record: SweepRecord) -> str:
    if record.repeat > 1:
        return f"Each point: {record.repeat} alternating runs; runs are the units of the intervals."
    return "Each point: one run; iterations are the units of the intervals, so they describe this run, not the next."


def _add(rows: Rows, point: PointRecord, setting: str, series: str, figure: Figure | None, unit: float) -> None:
    if figure is not None:
        low, high = figure.low or figure.value, figure.high or figure.value
        rows.add(
            setting=setting,
            series=series,
            value=figure.value / unit,
            low=low / unit,
            high=high / unit,
            note=note(point),
        )


def _points(record: SweepRecord) -> PageSection:
    about = "The runs of a point are in its folder, each with its own report."
    return PageSection(
        "points", "Points", [table_of("results", "Points", columns_of(record), record.points)], about, True
    )


def _method(record: SweepRecord) -> PageSection:
    facts = [(axis.name, f"{axis.setting}: {', '.join(axis.values)}") for axis in record.axes]
    facts += [("Order", "all points once, then all again" if record.repeat > 1 else "as in the table")]
    facts += [("Run spec of the first point", yaml.safe_dump(dict(record.spec), sort_keys=False))]
    return PageSection("method", "Method", [Facts("method-facts", "Sweep", facts)])
