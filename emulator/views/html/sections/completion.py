"""How long collectives took: the table of classes, distributions, and iteration by iteration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from emulator.statistics.stats import median
from emulator.statistics.summary import ClassSummary
from emulator.units import format_size
from emulator.views.html.facts import RunFacts, class_names, key_of
from emulator.views.html.page.document import Block, Chart, Column, Section, Table, Text
from emulator.views.html.page.pictures import Picture, Rows
from emulator.views.html.page.reduction import distribution_curve, stretches
from emulator.views.terminal.summary_table import COLUMNS, NONE, duration_cell, number_cell

DRAWN = 8
"""Classes in one picture; more lines than colours tell nothing."""
ITERATION_POINTS = 240
FEWEST_SIZES = 4
"""Sizes of one collective, each played once in an iteration, that make a sweep."""
_TITLES = {"\np99": "cct p99", "\nmax": "cct max"}


def completion(facts: RunFacts) -> Section:
    """The classes of the run."""
    rows = facts.summary.classes
    about = (
        "Of each collective: cct = last done - last post of its members: everyone was there, so this is the network. "
        "Warm-up and excluded iterations are in none of it. Classes are sorted by the time they take in an iteration."
    )
    if not rows:
        text = "No collective was completed in a measured iteration."
        return Section("completion", "Completion times", [Text("no-classes", text, "note")])
    blocks: list[Block] = [_table(rows)]
    blocks += _sweeps(rows)
    blocks += [_curves(facts, rows[:DRAWN]), _over_iterations(facts, rows[:DRAWN])]
    if not facts.is_running:  # intervals take their time
        blocks.append(_percentiles(facts, rows))
    return Section("completion", "Completion times", blocks, about)


def _table(rows: Sequence[ClassSummary]) -> Table:
    """The same columns and cells as the table that the run printed."""
    cells = {column.title: [column.cell(row) for row in rows] for column in COLUMNS}
    shown = [one for one in COLUMNS if not one.optional or any(cell != NONE for cell in cells[one.title])]
    titles = [Column(_TITLES.get(one.title, one.title.replace("\n", " ")), one.justify == "right") for one in shown]
    lines = [[*(cells[one.title][at] for one in shown), str(row.samples)] for at, row in enumerate(rows)]
    about = (
        "size as nccl-tests counts it; count: such collectives in one iteration; algbw, busbw in GB/s (10⁹ bytes per "
        "second) and ideal % at the median; percentiles are nearest rank, n is what they are made of; "
        f"{NONE} what was not measured, or what n cannot carry."
    )
    return Table("classes", "Classes of collectives", [*titles, Column("n")], lines, about)


def _curves(facts: RunFacts, rows: Sequence[ClassSummary]) -> Chart:
    curves = Rows()
    for row, name in zip(rows, class_names(rows), strict=True):
        curve = distribution_curve(facts.times(row).time_ns)
        curves.extend(len(curve.value), **{"class": name}, time_ns=curve.value, share=curve.share)
    count = sum(row.samples for row in rows)
    return Chart(
        "cct-distribution",
        "Distribution of cct",
        f"Share of measurements that took at most so long; every point is a measured one; n = {count:,} in "
        f"{len(rows)} class{'es' * (len(rows) != 1)}{_left_out(facts)}. Choose a class in the legend.",
        "Cumulative distribution of completion times, a line for each class; the table of percentiles has numbers.",
        Picture("cct_cdf", {"curve": curves.columns}),
    )


def _left_out(facts: RunFacts) -> str:
    more = len(facts.summary.classes) - DRAWN
    return f", {more} more take less time" if more > 0 else ""


def _over_iterations(facts: RunFacts, rows: Sequence[ClassSummary]) -> Chart:
    points = Rows()
    names, width = class_names(rows), 1
    for row, name in zip(rows, names, strict=True):
        times = facts.times(row)
        for stretch in stretches(times.iteration, most=ITERATION_POINTS):
            values = times.time_ns[stretch.rows]
            width = max(width, stretch.last - stretch.first + 1)
            spread = {"least": int(values.min()), "median": int(median(values) or 0), "most": int(values.max())}
            points.add(**{"class": name}, iteration=stretch.first, **spread, n=len(values))
    each = "iteration" if width == 1 else f"{width} iterations"
    return Chart(
        "cct-over-iterations",
        "cct over iterations",
        f"Line: median of the class in each {each}; band: least to largest. Warm-up is left out.",
        "Completion time of a class, iteration by iteration: median, least and largest.",
        Picture("cct_iterations", {"points": points.columns}, choice="class", choices=[(name, name) for name in names]),
        choice_title="Class",
    )


def _percentiles(facts: RunFacts, rows: Sequence[ClassSummary]) -> Table:
    columns = ["class", "n", "iterations", "p50", "p50 95 % interval", "p90", "p95", "p99", "p99.9", "max", "CV %"]
    lines = []
    for row in rows:
        one = facts.distribution(row)
        interval = one.median_interval_ns
        shown = NONE if interval is None else f"{duration_cell(interval.low)} to {duration_cell(interval.high)}"
        quantiles = (one.p90_ns, one.p95_ns, one.p99_ns, one.p999_ns, one.max_ns)
        spread = NONE if one.variation is None else number_cell(100 * one.variation)
        head = [str(key_of(row)), str(one.samples), str(one.iterations), duration_cell(one.p50_ns), shown]
        lines.append([*head, *map(duration_cell, quantiles), spread])
    about = (
        "cct of every measurement. The interval is a bootstrap over iterations: it speaks of this run, not of the next "
        "one. CV: standard deviation / mean. p90 needs 10 samples, p95 20, p99 100, p99.9 1,000."
    )
    titles = [Column(title, is_number=at > 0) for at, title in enumerate(columns)]
    return Table("percentiles", "Percentiles of every class", titles, lines, about, is_folded=True)


def _sweeps(rows: Sequence[ClassSummary]) -> Iterator[Chart]:
    """busbw over size, of collectives that were played with several sizes."""
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
        f"busbw at the median cct, GB/s, from {format_size(min(sizes))} to {format_size(max(sizes))}; "
        "size as nccl-tests counts it.",
        "Bus bandwidth over size, both on log scales, a line for each collective; the table of classes has numbers.",
        Picture("busbw_size", {"points": points.columns}),
        is_wide=True,
    )


def _is_sweep(rows: Sequence[ClassSummary]) -> bool:
    return len(rows) >= FEWEST_SIZES and all(row.count == 1 for row in rows)
