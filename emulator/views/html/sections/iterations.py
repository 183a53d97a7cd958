"""Iterations and ranks: how long iterations took, and how each rank spent its time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from emulator.results.statistics.method.descriptive import median
from emulator.results.statistics.metric import Scope, Unit
from emulator.results.statistics.metrics import METRICS
from emulator.trace.meaning.model import IntArray
from emulator.views.columns.columns import Header
from emulator.views.columns.figures import count_cell, duration_cell
from emulator.views.html.facts import PageFacts
from emulator.views.html.page.document import Block, Chart, PageSection, Table, Text
from emulator.views.html.page.pictures import Picture, Rows
from emulator.views.html.page.reduction import Interval, iteration_slices, joined_intervals, states
from emulator.views.html.sections.chosen import Chosen, Iteration, choose, whole_iterations

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
