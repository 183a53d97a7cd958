"""Completion times of collectives: the table of classes, distributions, and times over the iterations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from emulator.results.statistics.class_summary import ClassSummary
from emulator.results.statistics.method.descriptive import median
from emulator.units import format_size
from emulator.views.columns.class_columns import CLASS_COLUMNS, DISTRIBUTION_COLUMNS, SAMPLES
from emulator.views.columns.figures import NONE, count_of
from emulator.views.html.facts import PageFacts, class_names
from emulator.views.html.page.document import Block, Chart, PageSection, Table, Text, table_of
from emulator.views.html.page.pictures import Picture, Rows
from emulator.views.html.page.reduction import distribution_curve, iteration_slices
from emulator.views.text.network_text import explain_ideal

DRAWN = 8
"""Classes in one chart: as many as there are colours."""
ITERATION_POINTS = 240
FEWEST_SIZES = 4
"""Sizes of one collective, each played once per iteration, that count as a sweep."""


def completion(facts: PageFacts) -> PageSection:
    """The section about completion times."""
    rows = facts.summary.classes
    about = (
        "cct, the completion time of a collective, is last arrival - last post over its members: it starts when the "
        "last member is ready, so it measures the network, not the wait. Warm-up and excluded iterations do not count. "
        "Classes are sorted by the time they take in an iteration."
    )
    if not rows:
        text = "No collective was completed in a measured iteration."
        return PageSection("completion", "Completion times", [Text("no-classes", text, "note")])
    blocks: list[Block] = [_table(rows)]
    blocks += _sweeps(rows)
    blocks += [_curves(facts, rows[:DRAWN]), _over_iterations(facts, rows[:DRAWN])]
    if not facts.is_running:  # bootstrap intervals take too long for a live page
        blocks.append(_percentiles(facts, rows))
    return PageSection("completion", "Completion times", blocks, about)


def _table(rows: Sequence[ClassSummary]) -> Table:
    """The same columns and cells as the table that the run printed, and the number of measurements."""
    about = f"Percentiles are nearest rank. {NONE} means: not measured, or too few measurements for this percentile."
    about = " ".join((about, *explain_ideal(rows)))
    return table_of("classes", "Classes of collectives", [*CLASS_COLUMNS, SAMPLES], rows, about)


def _curves(facts: PageFacts, rows: Sequence[ClassSummary]) -> Chart:
    curves = Rows()
    for row, name in zip(rows, class_names(rows), strict=True):
        curve = distribution_curve(facts.times(row).time_ns)
        curves.extend(len(curve.value), **{"class": name}, time_ns=curve.value, share=curve.share)
    count = sum(row.samples for row in rows)
    return Chart(
        "cct-distribution",
        "Distribution of cct",
        f"Share of measurements that took at most this time. Every point is a measured value. n = {count:,} in "
        f"{count_of(len(rows), 'class', 'classes')}{_left_out(facts)}. Click a class in the legend to highlight it.",
        "Cumulative distribution of completion times, one line per class; the table of percentiles has the numbers.",
        Picture("cct_cdf", {"curve": curves.columns}),
    )


def _left_out(facts: PageFacts) -> str:
    more = len(facts.summary.classes) - DRAWN
    return f" ({more} more take less time)" if more > 0 else ""


def _over_iterations(facts: PageFacts, rows: Sequence[ClassSummary]) -> Chart:
    points = Rows()
    names, width = class_names(rows), 1
    for row, name in zip(rows, names, strict=True):
        times = facts.times(row)
        for part in iteration_slices(times.iteration, most=ITERATION_POINTS):
            values = times.time_ns[part.rows]
            width = max(width, part.last - part.first + 1)
            spread = {"least": int(values.min()), "median": int(median(values) or 0), "most": int(values.max())}
            points.add(**{"class": name}, iteration=part.first, **spread, n=len(values))
    each = "iteration" if width == 1 else f"{width} iterations"
    return Chart(
        "cct-over-iterations",
        "cct over iterations",
        f"Line: median of the class per {each}. Band: smallest to largest value. Without warm-up.",
        "Completion time of a class over the iterations: median, smallest and largest.",
        Picture("cct_iterations", {"points": points.columns}, choice="class", choices=[(name, name) for name in names]),
        choice_title="Class",
    )


def _percentiles(facts: PageFacts, rows: Sequence[ClassSummary]) -> Table:
    found = [facts.distribution(row) for row in rows]
    return table_of("percentiles", "Percentiles of cct, by class", DISTRIBUTION_COLUMNS, found, is_folded=True)


def _sweeps(rows: Sequence[ClassSummary]) -> Iterator[Chart]:
    """busbw over size, for collectives that were played with several sizes."""
    found: dict[tuple[str, int], list[ClassSummary]] = defaultdict(list)
    for row in rows:
        if row.busbw_bytes_per_s is not None:
            found[row.collective, row.members].append(row)
    swept = {key: sorted(group, key=lambda one: one.size_bytes) for key, group in found.items()}
    swept = {key: group for key, group in swept.items() if _is_sweep(group)}
    if not swept:
        return
    points = Rows()
    for (collective, members), group in swept.items():
        for row in group:
            drawn = {"size_bytes": row.size_bytes, "busbw": (row.busbw_bytes_per_s or 0.0) / 1e9}
            about = {"class": f"{collective}, {members} ranks", "algorithm": row.algorithm or NONE}
            points.add(**drawn, **about, time_ns=row.cct_p50_ns)
    sizes = [row.size_bytes for group in swept.values() for row in group]
    yield Chart(
        "busbw-over-size",
        "Bus bandwidth over size",
        f"busbw at the median cct, GB/s, for sizes from {format_size(min(sizes))} to {format_size(max(sizes))} "
        "(as nccl-tests counts them).",
        "Bus bandwidth over size, both axes logarithmic, one line per collective; numbers are in the table of classes.",
        Picture("busbw_size", {"points": points.columns}),
        is_wide=True,
    )


def _is_sweep(rows: Sequence[ClassSummary]) -> bool:
    return len(rows) >= FEWEST_SIZES and all(row.count == 1 for row in rows)
