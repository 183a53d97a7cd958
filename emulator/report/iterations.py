"""Iterations and ranks: how long iterations took, and how every rank spent them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from emulator.report.facts import RunFacts
from emulator.report.page import Block, Chart, Column, Section, Table, Text
from emulator.report.pictures import Picture, Rows
from emulator.report.reduction import joined_intervals, spread_evenly, stretches
from emulator.results.stats import median, median_index
from emulator.results.table import duration_cell
from emulator.trace.model import IntArray
from emulator.units import format_duration

POINTS = 240
CHOICES = 16
"""Iterations that can be chosen."""
LANES = 48
"""Ranks that a time line shows."""
INTERVALS = 9_000
"""Of all choices and ranks together; where there would be more, short pauses are closed."""
_STATES = ("compute", "both", "exposed communication", "neither")


@dataclass(frozen=True, slots=True)
class Iteration:
    """An iteration that all ranks completed: its number, and its rows in iterations.parquet by rank."""

    number: int
    rows: IntArray
    start_ns: int
    jct_ns: int


def iterations(facts: RunFacts) -> Section:
    """JCT by iteration, time line and usage of ranks."""
    whole = list(whole_iterations(facts))
    counted = [one for one in whole if one.number >= 0 and one.number not in facts.excluded]
    if not counted:
        text = "No measured iteration was completed by all ranks."
        return Section("iterations", "Iterations and ranks", [Text("no-iterations", text, "note")])
    choices = dict(_choices(counted))
    ranks = _lanes(facts, counted)
    blocks: list[Block] = [_jct(facts, whole), _usage(facts, choices, ranks), _time_line(facts, choices, ranks)]
    return Section("iterations", "Iterations and ranks", blocks)


def whole_iterations(facts: RunFacts) -> Iterator[Iteration]:
    """Those that every rank reported, warm-up and excluded ones among them."""
    usage = facts.usage
    for number in np.unique(usage["iteration"]).tolist():
        rows = np.flatnonzero(usage["iteration"] == number)
        if len(rows) == facts.manifest.trace.ranks:
            rows = rows[np.argsort(usage["rank"][rows], kind="stable")]
            start, end = int(usage["start_ns"][rows].min()), int(usage["end_ns"][rows].max())
            yield Iteration(number, rows, start, end - start)


def _jct(facts: RunFacts, whole: Sequence[Iteration]) -> Chart:
    number = np.array([one.number for one in whole], np.int64)
    jct = np.array([one.jct_ns for one in whole], np.int64)
    bars = Rows()
    for stretch in stretches(number, most=POINTS):
        jct_ns = int(median(jct[stretch.rows]) or 0)
        bars.add(iteration=stretch.first, jct_ns=jct_ns, what=_what(facts, stretch.first))
    middle = facts.summary.iteration
    rows = [[str(one.number), _what(facts, one.number), duration_cell(one.jct_ns)] for one in whole[:POINTS]]
    titles = [Column("iteration"), Column("counted as", is_number=False), Column("JCT")]
    return Chart(
        "jct",
        "JCT of every iteration",
        f"First start to last end over all ranks; n = {middle.count if middle else 0} measured iterations; warm-up, "
        "numbered below 0, is shown and not counted.",
        "Duration of every iteration as bars; a line marks the median of the measured ones.",
        Picture("jct", {"bars": bars.columns, "median": {"jct_ns": [middle.jct_ns if middle else None]}}),
        Table("jct-table", "JCT of every iteration", titles, rows),
    )


def _what(facts: RunFacts, number: int) -> str:
    if number < 0:
        return "warm-up"
    return "excluded" if number in facts.excluded else "measured"


def _choices(counted: Sequence[Iteration]) -> Iterator[tuple[str, Iteration]]:
    """Label → iteration: the median, the fastest, the slowest, then others evenly."""
    jct = np.array([one.jct_ns for one in counted], np.int64)
    named = {median_index(jct): "median", int(jct.argmin()): "fastest", int(jct.argmax()): "slowest"}
    named = {median_index(jct): "median", **{at: name for at, name in named.items() if at != median_index(jct)}}
    others = [at for at in range(len(counted)) if at not in named]
    for at in [*named, *spread_evenly(others, CHOICES - len(named))]:
        one = counted[at]
        name = f", the {named[at]}" if at in named and len(counted) > 1 else ""
        yield f"iteration {one.number}: {format_duration(one.jct_ns)}{name}", one


def _lanes(facts: RunFacts, counted: Sequence[Iteration]) -> list[int]:
    ranks = facts.usage["rank"][counted[0].rows].tolist()
    slowest = facts.summary.iteration.slowest_rank if facts.summary.iteration else ranks[0]
    return sorted({*spread_evenly(ranks, LANES - 1), slowest}) if len(ranks) > LANES else ranks


def _usage(facts: RunFacts, choices: Mapping[str, Iteration], ranks: Sequence[int]) -> Chart:
    """How long each rank did what; together its part of the iteration."""
    usage = Rows()
    table: list[list[str]] = []
    first = next(iter(choices.values()))
    for one in choices.values():
        for row in one.rows[np.isin(facts.usage["rank"][one.rows], ranks)].tolist():
            rank, spent = str(facts.usage["rank"][row]), _spent(facts.usage, row, one)
            for order, (state, time_ns) in enumerate(zip(_STATES, spent, strict=True)):
                usage.add(iteration=str(one.number), rank=rank, state=state, order=order, time_ns=time_ns)
            if one is first:
                table.append([rank, *map(duration_cell, spent)])
    titles = [Column("rank"), *(Column(state) for state in _STATES)]
    return Chart(
        "rank-usage",
        "How every rank spent the iteration",
        "Of the JCT: computing, both at once, communication that no compute hid (exposed), neither. "
        f"{_shown(facts, ranks)}",
        "Stacked bars, one for each rank: compute, overlap, exposed communication and neither.",
        Picture("rank_usage", {"usage": usage.columns}, "iteration", _options(choices)),
        Table("rank-usage-table", f"How every rank spent iteration {first.number}", titles, table),
        "Iteration",
    )


def _spent(usage: Mapping[str, IntArray], row: int, one: Iteration) -> tuple[int, int, int, int]:
    compute, communication, both = (int(usage[f"{name}_ns"][row]) for name in ("compute", "communication", "overlap"))
    rest = one.jct_ns - compute - communication + both
    return compute - both, both, communication - both, max(rest, 0)


def _time_line(facts: RunFacts, choices: Mapping[str, Iteration], ranks: Sequence[int]) -> Chart:
    bars = Rows()
    gap = _closed_pause(facts, choices, ranks)
    for one in choices.values():
        for rank, kind, begin, end in _communications(facts, one, ranks, gap=gap):
            begin_ns, end_ns = begin - one.start_ns, end - one.start_ns
            bars.add(iteration=str(one.number), rank=str(rank), kind=kind, begin_ns=begin_ns, end_ns=end_ns)
    closed = f"; pauses shorter than {format_duration(gap)} are closed" if gap else ""
    return Chart(
        "time-line",
        "Time line of communication",
        f"From post to done, by kind of communication, since the iteration began{closed}. When compute ran is not "
        "recorded, how long it ran is: above. "
        f"{_shown(facts, ranks)}",
        "A lane for each rank with bars where communication was under way, coloured by kind.",
        Picture("time_line", {"bars": bars.columns}, "iteration", _options(choices)),
        choice_title="Iteration",
        is_wide=True,
    )


def _closed_pause(facts: RunFacts, choices: Mapping[str, Iteration], ranks: Sequence[int]) -> float:
    """The shortest pause to draw, ns; 0 where all can be drawn."""
    numbers = [one.number for one in choices.values()]
    spans = np.count_nonzero(np.isin(facts.spans.iteration, numbers) & np.isin(facts.spans.rank, ranks))
    if spans <= INTERVALS:
        return 0.0
    return max(one.jct_ns for one in choices.values()) * len(choices) * len(ranks) / INTERVALS


def _communications(
    facts: RunFacts, one: Iteration, ranks: Sequence[int], *, gap: float
) -> Iterator[tuple[int, str, int, int]]:
    spans = facts.spans
    mine = np.flatnonzero((spans.iteration == one.number) & np.isin(spans.rank, ranks))
    for rank in ranks:
        of_rank = mine[spans.rank[mine] == rank]
        for code in np.unique(spans.kind[of_rank]).tolist():
            rows = of_rank[spans.kind[of_rank] == code]
            for begin, end in joined_intervals(spans.post_ns[rows], spans.done_ns[rows], gap=gap):
                yield rank, spans.kinds[code], begin, end


def _options(choices: Mapping[str, Iteration]) -> list[tuple[str, str]]:
    return [(str(one.number), label) for label, one in choices.items()]


def _shown(facts: RunFacts, ranks: Sequence[int]) -> str:
    every = facts.manifest.trace.ranks
    return f"All {every} ranks." if len(ranks) == every else f"{len(ranks)} of {every:,} ranks."
