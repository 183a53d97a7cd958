"""The summary of a run for people, at any width, and for machines."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from emulator.run_folder.manifest import COMPLETE, Scaling
from emulator.statistics.dut_counts import in_words
from emulator.statistics.flows import flows_in_words
from emulator.statistics.summary import ClassSummary, IterationSummary, RunSummary
from emulator.units import format_duration, format_size
from emulator.visible import short, visible

WIDTH = 120
"""Columns the whole table fits in; where stdout is no terminal, this is the width to print at."""

_LONGEST_NAME = 100
NONE = "–"  # noqa: RUF001 (an en dash is what the tables show where nothing is known)
_GIGA = 1e9


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of the table; `sacrifice`: the higher, the sooner it goes where the width does not suffice, 0 never.

    `optional` columns go where no row has a value.
    """

    title: str
    cell: Callable[[ClassSummary], str]
    justify: Literal["left", "right"] = "right"
    sacrifice: int = 0
    optional: bool = False
    style: str = ""


def duration_cell(value: float | None) -> str:
    """Nanoseconds as the tables show them."""
    return NONE if value is None else format_duration(value)


def number_cell(value: float | None) -> str:
    """Three digits: 0.00123, 1.23, 123; an exponent only where zeros would hide them: 1.2e-06."""
    if value is None:
        return NONE
    if value == 0:
        return "0"
    if abs(value) < 1e-4:
        return f"{value:.1e}"
    digits = max(0, min(5, 2 - math.floor(math.log10(abs(value)))))
    return f"{value:.{digits}f}"


def rate_cell(value: float | None) -> str:
    """Bytes per second, in GB/s without the unit."""
    return number_cell(None if value is None else value / _GIGA)


def _tester_cell(row: ClassSummary) -> str:
    return number_cell(row.tester_percent) + ("!" if row.is_tester_limited else "")


COLUMNS = (
    TableColumn("collective", lambda row: row.collective, justify="left"),
    TableColumn("ranks", lambda row: str(row.members)),
    TableColumn("size", lambda row: format_size(row.size_bytes)),
    TableColumn("algorithm", lambda row: row.algorithm or NONE, justify="left", sacrifice=4),
    TableColumn("count", lambda row: str(row.count), sacrifice=3),
    TableColumn("algbw\nGB/s", lambda row: rate_cell(row.algbw_bytes_per_s), sacrifice=5),
    TableColumn("busbw\nGB/s", lambda row: rate_cell(row.busbw_bytes_per_s), style="bold"),
    TableColumn("ideal\n%", lambda row: number_cell(row.ideal_percent), sacrifice=2, optional=True),
    TableColumn("tester\n%", lambda row: _tester_cell(row), sacrifice=2, optional=True),
    TableColumn("cct\np50", lambda row: duration_cell(row.cct_p50_ns), style="bold"),
    TableColumn("\np99", lambda row: duration_cell(row.cct_p99_ns), sacrifice=6),
    TableColumn("\nmax", lambda row: duration_cell(row.cct_max_ns), sacrifice=7),
    TableColumn("skew\np50", lambda row: duration_cell(row.skew_p50_ns), sacrifice=8),
    TableColumn("traced", lambda row: duration_cell(row.traced_ns), sacrifice=9, optional=True),
    TableColumn("bw\nratio", lambda row: number_cell(row.bw_ratio), sacrifice=1, optional=True),
)
"""The columns of the table of classes; a report has the same."""


def render(summary: RunSummary, *, width: int = WIDTH, limit: int | None = None) -> RenderableType:
    """The summary for a console of that many columns.

    Args:
        summary: of a run.
        width: columns; where it does not suffice, columns of the table are left out and named.
        limit: most classes to show, those that take most time; None = all.
    """
    parts: list[RenderableType] = [_headline(summary), Text()]
    if summary.classes:
        parts += _class_table(summary.classes[:limit], width=width)
    if limit is not None and len(summary.classes) > limit:
        parts.append(Text(f"{len(summary.classes) - limit} more classes take less time.", style="dim"))
    if not summary.classes:
        parts.append(Text("No collective was completed in a measured iteration."))
    return Group(*parts, Text(), _facts(summary))


def _headline(summary: RunSummary) -> Text:
    trials = summary.trials
    counted = f"{trials.included} iteration{'s' * (trials.included != 1)}"
    warmup = f" after {trials.warmup} warm-up" if trials.warmup else ""
    text = Text.assemble(
        (short(summary.trace, _LONGEST_NAME), "bold"),
        f", {summary.ranks} rank{'s' * (summary.ranks != 1)}, {counted}{warmup}",
    )
    if summary.status != COMPLETE:
        text.append(f"\n{summary.status}: {visible(summary.reason or 'not closed')}", style="bold red")
    return text


def _class_table(classes: Sequence[ClassSummary], *, width: int) -> Iterator[RenderableType]:
    cells = {column.title: [column.cell(row) for row in classes] for column in COLUMNS}
    columns = [one for one in COLUMNS if not one.optional or any(cell != NONE for cell in cells[one.title])]
    columns, left_out = _fit(columns, cells, width)
    gap = 2 if _needed(columns, cells, gap=2) <= width else 1
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap - 1, 0, 0))
    for column in columns:
        table.add_column(column.title, justify=column.justify, style=column.style, no_wrap=True, vertical="bottom")
    for at in range(len(classes)):
        table.add_row(*(cells[column.title][at] for column in columns))
    yield table
    if left_out:
        names = ", ".join(" ".join(column.title.split()) for column in left_out)
        yield Text(f"Left out at this width: {names}.", style="dim")


def _fit(
    columns: list[TableColumn], cells: Mapping[str, Sequence[str]], width: int
) -> tuple[list[TableColumn], list[TableColumn]]:
    left_out: list[TableColumn] = []
    while _needed(columns, cells, gap=1) > width and any(column.sacrifice for column in columns):
        worst = max(columns, key=lambda column: column.sacrifice)
        columns = [column for column in columns if column is not worst]
        left_out.append(worst)
    return columns, left_out


def _needed(columns: Sequence[TableColumn], cells: Mapping[str, Sequence[str]], *, gap: int) -> int:
    widest = (max(map(cell_len, [*one.title.split("\n"), *cells[one.title]])) for one in columns)
    return sum(widest) + gap * (len(columns) - 1) + gap - 1


def _facts(summary: RunSummary) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    for name, fact in _lines(summary):
        grid.add_row(name, Text(visible(fact)))
    return grid


def _lines(summary: RunSummary) -> Iterator[tuple[str, str]]:
    if summary.scaling.is_scaled or summary.scaling.element_bytes is not None:
        yield "Scaled" if summary.scaling.is_scaled else "Sizes", describe_scaling(summary.scaling)
    if summary.iteration is not None:
        yield from _iteration_lines(summary.iteration)
    yield from _total_lines(summary)
    yield "Measured at", _describe_tester(summary)
    for what, count in summary.warnings.items():
        yield "Warning", warning_in_words(what, count)


def warning_in_words(what: str, count: int) -> str:
    """A warning and how many times it came."""
    return f"{what} ({count:,} times)" if count != 1 else what


def describe_scaling(scaling: Scaling) -> str:
    """How the run differs from the trace, in words."""
    parts = []
    if scaling.bytes != 1:
        parts.append(f"sizes × {scaling.bytes:g}")  # noqa: RUF001
    if scaling.compute == "skip":
        parts.append("compute skipped")
    elif scaling.is_scaled and scaling.compute != "replay":
        parts.append(f"compute time × {scaling.compute}")  # noqa: RUF001
    if scaling.element_bytes is not None:
        parts.append(f"the trace counts elements of {scaling.element_bytes} bytes")
    return ", ".join(parts)


def _iteration_lines(iteration: IterationSummary) -> Iterator[tuple[str, str]]:
    spread = (
        f"{format_duration(iteration.jct_min_ns)} to {format_duration(iteration.jct_max_ns)} over {iteration.count}"
    )
    if iteration.jct_variation is not None:
        spread += f", variation {100 * iteration.jct_variation:.1f} %"
    yield "Iteration (JCT)", f"{format_duration(iteration.jct_ns)} median, {spread}"
    if iteration.roofline_ratio is not None:
        yield "JCT / roofline", f"{number_cell(iteration.roofline_ratio)}{_sequential(iteration)}"
    if iteration.exposed_fraction is not None:
        share = f"{100 * iteration.exposed_fraction:.0f} % of the iteration"
        where = f"rank {iteration.slowest_rank}, the last to finish the median iteration"
        yield "Exposed", f"{format_duration(iteration.exposed_ns)} of communication, {share} ({where})"
    if iteration.overlap_fraction is not None:
        hidden = f"{100 * iteration.overlap_fraction:.0f} % of {format_duration(iteration.communication_ns)}"
        compute = f"compute {format_duration(iteration.compute_ns)}"
        yield "Overlapped", f"{format_duration(iteration.overlap_ns)}, {hidden} of communication; {compute}"


def _sequential(iteration: IterationSummary) -> str:
    ratio = iteration.sequential_roofline_ratio
    return "" if ratio is None else f" (to the sequential roofline {number_cell(ratio)})"


def _total_lines(summary: RunSummary) -> Iterator[tuple[str, str]]:
    totals = summary.totals
    rate = (
        ""
        if totals.payload_bytes_per_s is None
        else f", {rate_cell(totals.payload_bytes_per_s)} GB/s over the iteration"
    )
    yield "Payload", f"{format_size(totals.payload_bytes)} an iteration{rate}"
    if totals.counters:
        yield "Flows", flows_in_words(totals.counters)
    if totals.dut:
        yield "DUT", in_words(totals.dut)
    limited = [one for one in summary.classes if one.is_tester_limited]
    if limited:
        yield "Tester-limited", _limited_in_words(limited)
    if totals.early:
        yield "Early payload", f"{totals.early} samples got payload before they had posted: no speed is given for them"
    if totals.negative:
        yield "Below zero", f"{totals.negative} measurements have a negative time and are left out"
    if totals.incomplete:
        yield "Incomplete", f"{totals.incomplete} measurements lack a member and are left out"
    for one in summary.trials.excluded:
        yield "Excluded", f"iteration {one.iteration}: {one.why}"


def _limited_in_words(classes: Sequence[ClassSummary]) -> str:
    names = "; ".join(f"{one.collective} {one.members} ranks {format_size(one.size_bytes)}" for one in classes[:4])
    more = f" and {len(classes) - 4} more" if len(classes) > 4 else ""
    return f"{names}{more}: within 10 % of what the tester does without a DUT, so no measure of one"


def _describe_tester(summary: RunSummary) -> str:
    tester = summary.tester
    clock = f"clock error at most {format_duration(tester.clock_error_ns)}" if tester.clock_error_ns else ""
    parts = [tester.observation_point, clock or tester.clock_source]
    if tester.post_lateness_median_ns is not None:
        parts.append(f"posts {format_duration(tester.post_lateness_median_ns)} late at the median")
    if tester.peak_rss_bytes is not None:
        parts.append(f"{format_size(tester.peak_rss_bytes)} of memory an agent")
    if tester.steal_fraction is not None:
        parts.append(f"steal {100 * tester.steal_fraction:.1f} %")
    return ", ".join(parts)


def to_json(summary: RunSummary) -> dict[str, Any]:
    """The same facts for machines: units in the names, null where the table has a dash, nothing rounded."""
    document = dataclasses.asdict(summary)
    scaling = document.pop("scaling")
    document["scaling"] = {"bytes_factor": scaling["bytes"], **{k: v for k, v in scaling.items() if k != "bytes"}}
    for row, one in zip(document["classes"], summary.classes, strict=True):
        row["tester_limited"] = one.is_tester_limited
    if summary.iteration is not None:
        document["iteration"] |= {
            "exposed_ns": summary.iteration.exposed_ns,
            "exposed_fraction": summary.iteration.exposed_fraction,
            "overlap_fraction": summary.iteration.overlap_fraction,
        }
    return document
