"""Runs over time: the median of each class, run after run, and what the first version took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from emulator.units import format_duration
from emulator.views.columns.columns import Header, texts
from emulator.views.columns.figures import NONE
from emulator.views.html.page.document import Chart, Table
from emulator.views.html.page.pictures import Picture, Rows


@dataclass(frozen=True, slots=True)
class TimedMedian:
    """The median of a class in a run, ns; the interval is that of this run, not of the next one.

    Attributes:
        run: its name.
        version: firmware, or group; "" if none is named.
        kind: the class.
    """

    run: str
    began: datetime
    version: str
    kind: str
    samples: int
    p50_ns: float | None
    low_ns: float | None
    high_ns: float | None


def over_time(points: Sequence[TimedMedian], *, margin: float) -> Chart:
    """The chart, with a table of its points.

    Args:
        points: oldest first.
        margin: difference from the first version that does not matter, a fraction.
    """
    drawn, limits = Rows(), Rows()
    for one in points:
        if one.p50_ns is not None:
            low, high = one.low_ns or one.p50_ns, one.high_ns or one.p50_ns
            figures = {"value": one.p50_ns, "low": low, "high": high}
            texts_of = {"kind": one.kind, "run": one.run, "version": one.version or "none named"}
            drawn.add(**texts_of, at=1000 * one.began.timestamp(), began=f"{one.began:%Y-%m-%d %H:%M}", **figures)
    kinds = list(dict.fromkeys(one.kind for one in points))
    first = points[0].version if points else ""
    for kind in kinds:
        values = [one.p50_ns for one in points if one.kind == kind and one.version == first and one.p50_ns is not None]
        for factor in (1 / (1 + margin), 1 + margin) if values else ():
            limits.add(kind=kind, limit=factor * median(values))
    headers = [*texts("run", "began", "version", "class"), Header("samples"), Header("p50"), Header("95 % interval")]
    return Chart(
        "over-time",
        "Median over time",
        "A point per run: the median of its measurements. Lines up and down: its 95 % interval, for that run alone. "
        f"Dashed: {100 * margin:g} % above and below the median of {first or 'the runs without a version'}, which came "
        "first.",
        "Median time of the selected class over the time at which each run began; the table below has the numbers.",
        Picture(
            "trend",
            {"points": drawn.columns, "limits": limits.columns},
            choice="kind",
            choices=[(one, one) for one in kinds],
        ),
        Table("points", "Every run", headers, [_cells(one) for one in points]),
        choice_title="Class",
        is_wide=True,
    )


def _cells(point: TimedMedian) -> list[str]:
    interval = NONE
    if point.low_ns is not None and point.high_ns is not None:
        interval = f"{format_duration(point.low_ns)} to {format_duration(point.high_ns)}"
    return [
        point.run,
        f"{point.began:%Y-%m-%d %H:%M}",
        point.version or NONE,
        point.kind,
        str(point.samples),
        NONE if point.p50_ns is None else format_duration(point.p50_ns),
        interval,
    ]
