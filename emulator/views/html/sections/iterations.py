"""Iterations, collectives and ranks: how long they took, how each rank spent its time, and whom others waited for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from emulator.results.statistics.class_summary import ClassSummary
from emulator.results.statistics.method.descriptive import median
from emulator.results.statistics.metric import Scope, Unit
from emulator.results.statistics.metrics import METRICS
from emulator.results.statistics.worst.stragglers import Lateness, RankLateness, StepLateness
from emulator.trace.meaning.model import IntArray
from emulator.units import format_size
from emulator.views.columns.class_columns import CLASS_COLUMNS, DISTRIBUTION_COLUMNS, SAMPLES
from emulator.views.columns.columns import Column, Header
from emulator.views.columns.figures import NONE, count_cell, count_of, duration_cell, number_cell
from emulator.views.html.facts import PageFacts, class_names
from emulator.views.html.page.document import Block, Chart, PageSection, Table, Text, table_of
from emulator.views.html.page.pictures import Picture, Rows
from emulator.views.html.page.reduction import Interval, distribution_curve, iteration_slices, joined_intervals, states
from emulator.views.html.sections.chosen import Chosen, Iteration, choose, whole_iterations
from emulator.views.network_text import explain_ideal

POINTS = 240
_EVENTS = [one for one in METRICS.values() if one.scope is Scope.ITERATION and one.unit is Unit.COUNT]
_STATES = ("compute", "both", "exposed communication", "neither")


def iterations(facts: PageFacts) -> PageSection:
    """The section about iterations and ranks."""
    whole = list(whole_iterations(facts))
    counted = [one for one in whole if one.number >= 0 and one.number not in facts.excluded]
    if not counted:
        text = "No measured iteration was completed by all ranks."
        return PageSection("iterations", "Iterations and ranks", [Text("no-iterations", text, "note")])
    chosen = choose(facts, counted)
    blocks: list[Block] = [_jct(facts, whole), _usage(facts, chosen), *time_lines(facts, chosen)]
    return PageSection("iterations", "Iterations and ranks", blocks)


def _jct(facts: PageFacts, whole: Sequence[Iteration]) -> Chart:
    number = np.array([one.number for one in whole], np.int64)
    jct = np.array([one.jct_ns for one in whole], np.int64)
    bars = Rows()
    for part in iteration_slices(number, most=POINTS):
        jct_ns = int(median(jct[part.rows]) or 0)
        bars.add(iteration=part.first, jct_ns=jct_ns, what=_what(facts, part.first))
    middle = facts.summary.iteration
    events = {one.number: one.events for one in facts.summary.iterations}
    seen = [one for one in _EVENTS if any(of_one[one.field] for of_one in events.values())]
    rows = [
        [
            str(one.number),
            _what(facts, one.number),
            duration_cell(one.jct_ns),
            *(count_cell(events.get(one.number, {}).get(event.field)) for event in seen),
        ]
        for one in whole[:POINTS]
    ]
    titles = [Header("iteration"), Header("counted as", is_number=False), Header("JCT")]
    titles += [Header(event.title.removesuffix(" of an iteration"), event.what) for event in seen]
    return Chart(
        "jct",
        "JCT of every iteration",
        "JCT, the job completion time, is the time from the first start to the last end over all ranks. "
        f"n = {middle.count if middle else 0} measured iterations. Warm-up has negative numbers and does not count.",
        "Duration of every iteration as a bar; a line marks the median of the measured ones.",
        Picture("jct", {"bars": bars.columns, "median": {"jct_ns": [middle.jct_ns if middle else None]}}),
        Table("jct-table", "JCT of every iteration", titles, rows),
    )


def _what(facts: PageFacts, number: int) -> str:
    if number < 0:
        return "warm-up"
    return "excluded" if number in facts.excluded else "measured"


def _usage(facts: PageFacts, chosen: Chosen) -> Chart:
    """How each rank spent the iteration; the parts add up to the JCT."""
    usage = Rows()
    table: list[list[str]] = []
    first = next(iter(chosen.iterations.values()))
    for one in chosen.iterations.values():
        for row in one.rows[np.isin(facts.usage["rank"][one.rows], chosen.ranks)].tolist():
            rank, spent = str(facts.usage["rank"][row]), _spent(facts.usage, row, one)
            for order, (state, time_ns) in enumerate(zip(_STATES, spent, strict=True)):
                usage.add(iteration=str(one.number), rank=rank, state=state, order=order, time_ns=time_ns)
            if one is first:
                table.append([rank, *map(duration_cell, spent)])
    titles = [Header("rank"), *(Header(state) for state in _STATES)]
    return Chart(
        "rank-usage",
        "How each rank spent the iteration",
        "Parts of the JCT: compute only, compute and communication at once, exposed communication (not overlapped by "
        f"compute), and neither. {chosen.in_words().partition(' Gaps')[0]}",
        "Stacked bars, one per rank: compute, overlap, exposed communication and neither.",
        Picture("rank_usage", {"usage": usage.columns}, "iteration", chosen.options),
        Table("rank-usage-table", f"How each rank spent iteration {first.number}", titles, table),
        "Iteration",
    )


def _spent(usage: Mapping[str, IntArray], row: int, one: Iteration) -> tuple[int, int, int, int]:
    compute, communication, both = (int(usage[f"{name}_ns"][row]) for name in ("compute", "communication", "overlap"))
    rest = one.jct_ns - compute - communication + both
    return compute - both, both, communication - both, max(rest, 0)


_NAMES = {1: "compute", 2: "exposed communication", 3: "both"}


def time_lines(facts: PageFacts, chosen: Chosen) -> Iterator[Chart]:
    """Time lines of compute and communication, and of communication by kind."""
    is_known = len(facts.compute.rank) > 0 or not facts.usage["compute_ns"].any()
    if is_known:
        yield _what_when(facts, chosen)
    yield _communication(facts, chosen, is_known=is_known)


def _what_when(facts: PageFacts, chosen: Chosen) -> Chart:
    bars = Rows()
    for one in chosen.iterations.values():
        for rank, state, begin, end in _states(facts, one, chosen):
            begin_ns, end_ns = begin - one.start_ns, end - one.start_ns
            bars.add(iteration=str(one.number), rank=str(rank), state=state, begin_ns=begin_ns, end_ns=end_ns)
    return Chart(
        "time-line",
        "Time line of ranks",
        "Time since the start of the iteration. Compute, exposed communication, or both at once; blank: neither. "
        f"{chosen.in_words()}",
        "One lane per rank: compute, exposed communication and both, over time.",
        Picture("time_line", {"bars": bars.columns}, "iteration", chosen.options),
        choice_title="Iteration",
        is_wide=True,
    )


def _communication(facts: PageFacts, chosen: Chosen, *, is_known: bool) -> Chart:
    bars = Rows()
    for one in chosen.iterations.values():
        for rank, kind, begin, end in _kinds(facts, one, chosen):
            begin_ns, end_ns = begin - one.start_ns, end - one.start_ns
            bars.add(iteration=str(one.number), rank=str(rank), kind=kind, begin_ns=begin_ns, end_ns=end_ns)
    unknown = "" if is_known else " This run did not record when devices compute."
    return Chart(
        "communication-line",
        "Time line of communication",
        f"Each bar lasts from post to done; the colour is the kind of communication. {chosen.in_words()}{unknown}",
        "One lane per rank with a bar for every communication, coloured by kind.",
        Picture("communication_line", {"bars": bars.columns}, "iteration", chosen.options),
        choice_title="Iteration",
        is_wide=True,
    )


def _states(facts: PageFacts, one: Iteration, chosen: Chosen) -> Iterator[tuple[int, str, int, int]]:
    spans, compute = facts.spans, facts.compute
    talk = np.flatnonzero(spans.iteration == one.number)
    work = np.flatnonzero(compute.iteration == one.number)
    for rank in chosen.ranks:
        talked, worked = talk[spans.rank[talk] == rank], work[compute.rank[work] == rank]
        computing = joined_intervals(compute.start_ns[worked], compute.end_ns[worked], gap=chosen.closed_ns)
        for state, begin, end in states(computing, _talking(facts, talked, chosen)):
            yield rank, _NAMES[state], begin, end


def _talking(facts: PageFacts, rows: IntArray, chosen: Chosen) -> list[Interval]:
    """From post to done; a receive whose payload came early can be done before it is posted, and takes no time."""
    post_ns = facts.spans.post_ns[rows]
    return joined_intervals(post_ns, np.maximum(post_ns, facts.spans.done_ns[rows]), gap=chosen.closed_ns)


def _kinds(facts: PageFacts, one: Iteration, chosen: Chosen) -> Iterator[tuple[int, str, int, int]]:
    spans = facts.spans
    mine = np.flatnonzero(spans.iteration == one.number)
    for rank in chosen.ranks:
        of_rank = mine[spans.rank[mine] == rank]
        for code in np.unique(spans.kind[of_rank]).tolist():
            for begin, end in _talking(facts, of_rank[spans.kind[of_rank] == code], chosen):
                yield rank, spans.kinds[code], begin, end


RANKS, STEPS = 16, 10
_ABOUT = (
    "One rank is last in every collective. A rank is a straggler if it is last more often than by chance, according to "
    "a one-sided exact binomial test with iterations as units, corrected for the number of ranks (p < 0.05)."
)

_RANK_COLUMNS: tuple[Column[RankLateness], ...] = (
    Column("rank", key="rank"),
    Column("last in", "collectives in which this rank was last", key="last", show=count_cell),
    Column("of", "collectives of this rank", key="of", show=count_cell),
    Column("expected", "by chance, if all members were equally likely", key="expected", show=number_cell),
    Column("behind", "median time after the last but one member", key="behind_ns", show=duration_cell),
    Column(
        "iterations",
        "iterations in which this rank was most often last",
        cell=lambda one: f"{one.iterations} of {one.of_iterations}",
    ),
    Column("p", "p of the test above", key="p", show=number_cell),
)
_STEP_COLUMNS: tuple[Column[StepLateness], ...] = (
    Column("step", "name of the node in the trace", key="name", is_number=False),
    Column("kind", "kind of communication", key="kind", is_number=False),
    Column("group", "process group", key="group", is_number=False),
    Column("members", "ranks in the process group", key="members"),
    Column("first to last post", "median over the iterations", key="spread_ns", show=duration_cell),
    Column("rank last", "rank that was most often last", key="rank"),
    Column("last in", "iterations in which it was last", cell=lambda one: f"{one.last} of {one.of}"),
    Column("behind", "median time after the last but one member", key="behind_ns", show=duration_cell),
    Column("p", "p that it is last this often by chance", key="p", show=number_cell),
)


def stragglers(facts: PageFacts) -> PageSection:
    """The section about stragglers."""
    title = "Stragglers"
    if facts.late_posts is None or facts.late_ends is None:
        return PageSection("stragglers", title, [Text("no-stragglers", "Available when the run ends.", "note")])
    if not facts.late_posts.ranks:
        text = "No collective of two ranks or more was completed in a measured iteration."
        return PageSection("stragglers", title, [Text("no-stragglers", text, "note")])
    blocks: list[Block] = [
        Text("straggler-sentence", f"{_found(facts.late_posts)} {_found(facts.late_ends)}"),
        _ranks(facts.late_posts, "Last to post: the others waited for this rank"),
        _ranks(facts.late_ends, "Last to complete: this rank was served last"),
        _steps(facts.late_posts),
    ]
    return PageSection("stragglers", title, blocks, _ABOUT)


def _found(late: Lateness) -> str:
    what = "to post" if late.event == "post" else "to complete"
    named = [f"rank {one.rank} (p = {number_cell(one.p)})" for one in late.stragglers]
    if not named:
        return f"No rank was last {what} more often than by chance."
    return f"Last {what} more often than by chance: {', '.join(named)}."


def _ranks(late: Lateness, caption: str) -> Table:
    hidden = len(late.ranks) - RANKS
    about = f"{count_of(hidden, 'more rank is', 'more ranks are')} less often last." if hidden > 0 else ""
    return table_of(f"late-{late.event}", caption, _RANK_COLUMNS, late.ranks[:RANKS], about, is_folded=True)


def _steps(late: Lateness) -> Table:
    about = "Collectives of the trace with the longest median time from the first to the last post."
    return table_of(
        "late-steps", "Steps with the longest wait", _STEP_COLUMNS, late.steps[:STEPS], about, is_folded=True
    )


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
