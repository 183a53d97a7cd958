"""The result of a sweep for a terminal: a row per point. The report has the same columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from emulator.annexes.series.run_set import stated_cell
from emulator.annexes.series.sweep_record import Figure, JobFigures, PointRecord, SweepRecord
from emulator.views.columns.columns import Column, bold
from emulator.views.columns.figures import NONE, count_of, duration_cell, rate_cell
from emulator.views.columns.result_columns import STYLES
from emulator.views.terminal.table import FittedTable
from emulator.visible import visible


def note(one: PointRecord) -> str:
    """What a reader of this point must know."""
    limited = f"tester-limited: {one.tester_limited}" if one.tester_limited else ""
    return "; ".join(filter(None, (limited, f"failed: {one.problem}" if one.problem else "")))


def interval_cell(figure: Figure | None, cell: Callable[[float], str]) -> str:
    """`1.2 ms to 1.4 ms`."""
    if figure is None or figure.low is None or figure.high is None:
        return NONE
    return f"{cell(figure.low)} to {cell(figure.high)}"


def columns_of(record: SweepRecord) -> list[Column[PointRecord]]:
    """The columns: one per setting, then the figures."""
    jobs = dict.fromkeys(one.job for point in record.points for one in point.jobs)
    if jobs:
        return [
            *(_setting(axis.name) for axis in record.axes),
            _RUNS,
            *(c for job in jobs for c in _job(job)),
            *_OF_SESSION,
        ]
    return [*(_setting(axis.name) for axis in record.axes), _RUNS, *_FIGURES]


def _job(name: str) -> list[Column[PointRecord]]:
    def found(point: PointRecord) -> JobFigures | None:
        return next((one for one in point.jobs if one.job == name), None)

    def factor(point: PointRecord) -> Figure | None:
        one = found(point)
        return None if one is None else one.factor

    return [
        Column(
            f"{name}:\nJCT",
            "time of an iteration of the job that the other jobs cover, median",
            cell=lambda point: NONE if (one := found(point)) is None else duration_cell(one.jct_ns),
            title=f"{name}: JCT",
            sacrifice=5,
        ),
        Column(
            f"{name}:\nfactor",
            "interference factor of the JCT: with the other jobs / alone",
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
            f"{name}:\nn",
            "iterations covered by the other jobs, and those excluded",
            cell=lambda point: NONE if (one := found(point)) is None else f"{one.covered}+{one.left_out}",
            title=f"{name}: n",
            sacrifice=4,
        ),
    ]


def _setting(name: str) -> Column[PointRecord]:
    return Column(name, "value of the setting", cell=lambda one: visible(one.values[name]), is_number=False, folds=20)


def _stated(figure: Figure | None, cell: Callable[[float], str]) -> str:
    return NONE if figure is None else stated_cell(figure.uncertainty, cell)


_JUDGED: tuple[Column[PointRecord], ...] = (
    Column(
        "verdict",
        "by the rules of the run spec (--expect), over all runs as one; of several jobs, the worst",
        cell=lambda one: NONE if one.verdict is None else one.verdict.value,
        is_number=False,
        is_optional=True,
        sacrifice=-1,
        style=lambda one: "" if one.verdict is None else STYLES[one.verdict],
    ),
    Column(
        "scaled",
        "how the runs differ from their trace",
        cell=lambda one: one.scaling or NONE,
        is_number=False,
        is_optional=True,
        folds=16,
    ),
    Column(
        "note",
        "tester-limited: the tester, not the device, determined the figures; failed: why a run failed",
        cell=lambda one: visible(note(one)) or NONE,
        is_number=False,
        is_optional=True,
        folds=24,
        style=lambda _: "yellow",
    ),
)
_RUNS: Column[PointRecord] = Column("runs", "complete runs of this point", cell=lambda one: str(one.runs), sacrifice=3)
_FIGURES: tuple[Column[PointRecord], ...] = (
    Column(
        "JCT",
        "time of an iteration: the median, or the Hodges-Lehmann estimate of the medians of several runs",
        cell=lambda one: duration_cell(one.jct_ns.value if one.jct_ns else None),
        style=bold,
    ),
    Column(
        "± U",
        "expanded uncertainty of the JCT (k = 2), clock, stamps and steal included; not stated: sweep.json says why",
        cell=lambda one: _stated(one.jct_ns, duration_cell),
    ),
    Column(
        "95 % interval",
        "by chance, of the JCT; with iterations as units if there is one run, else with runs as units",
        cell=lambda one: interval_cell(one.jct_ns, duration_cell),
        sacrifice=1,
    ),
    Column(
        "busbw\nGB/s",
        "bus bandwidth of the class",
        cell=lambda one: rate_cell(one.busbw_bytes_per_s.value if one.busbw_bytes_per_s else None),
        unit="1e9 bytes per second",
        style=bold,
    ),
    Column(
        "± U ",
        "expanded uncertainty of the bus bandwidth (k = 2)",
        cell=lambda one: _stated(one.busbw_bytes_per_s, rate_cell),
        title="busbw ± U",
        sacrifice=2,
    ),
    Column(
        "95 % interval ",
        "by chance, of the bus bandwidth",
        cell=lambda one: interval_cell(one.busbw_bytes_per_s, rate_cell),
        title="busbw 95 % interval",
        sacrifice=2,
    ),
    Column(
        "class",
        "class of the bus bandwidth: the one of its collective that takes the most time",
        cell=lambda one: one.collective or NONE,
        is_number=False,
        folds=24,
        sacrifice=4,
    ),
    *_JUDGED,
)
_OF_SESSION: tuple[Column[PointRecord], ...] = (
    Column(
        "fairness",
        "Jain's index of the rates that the jobs keep: 1 / factor of each",
        cell=lambda one: NONE if one.fairness is None else f"{one.fairness:.4f}",
        sacrifice=3,
    ),
    *_JUDGED,
)


def render_sweep_record(record: SweepRecord, folder: Path) -> Sequence[RenderableType]:
    """The table and where everything is."""
    lines = list(_lines(record, folder))
    return [
        Text(visible(headline(record)), style="bold"),
        Text(),
        FittedTable(columns_of(record), record.points),
        *lines,
    ]


def headline(record: SweepRecord) -> str:
    """What was varied, and how much of it is played."""
    axes = " × ".join(f"{axis.name} ({count_of(len(axis.values), 'value')})" for axis in record.axes)  # noqa: RUF001
    each = f", {count_of(record.repeat, 'run')} each" if record.repeat > 1 else ""
    left = f"; {record.left} of {count_of(len(record.points), 'point')} lack a complete run" if record.left else ""
    return f"{record.name} over {axes}{each}{left}"


def _lines(record: SweepRecord, folder: Path) -> Iterator[str]:
    if record.left:
        yield f"Play the missing runs: repeat the command with --resume --out {visible(str(folder))}"
    yield f"Folder of the sweep, with report.html: {visible(str(folder))}"
