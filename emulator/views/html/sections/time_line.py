"""Time lines of ranks: when they compute, when they communicate, and which communication is exposed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from emulator.trace.meaning.model import IntArray
from emulator.views.html.facts import RunFacts
from emulator.views.html.page.document import Chart
from emulator.views.html.page.pictures import Picture, Rows
from emulator.views.html.page.reduction import Interval, joined_intervals, states
from emulator.views.html.sections.chosen import Chosen, Iteration

_NAMES = {1: "compute", 2: "exposed communication", 3: "both"}


def time_lines(facts: RunFacts, chosen: Chosen) -> Iterator[Chart]:
    """Time lines of compute and communication, and of communication by kind."""
    is_known = len(facts.compute.rank) > 0 or not facts.usage["compute_ns"].any()
    if is_known:
        yield _what_when(facts, chosen)
    yield _communication(facts, chosen, is_known=is_known)


def _what_when(facts: RunFacts, chosen: Chosen) -> Chart:
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


def _communication(facts: RunFacts, chosen: Chosen, *, is_known: bool) -> Chart:
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


def _states(facts: RunFacts, one: Iteration, chosen: Chosen) -> Iterator[tuple[int, str, int, int]]:
    spans, compute = facts.spans, facts.compute
    talk = np.flatnonzero(spans.iteration == one.number)
    work = np.flatnonzero(compute.iteration == one.number)
    for rank in chosen.ranks:
        talked, worked = talk[spans.rank[talk] == rank], work[compute.rank[work] == rank]
        computing = joined_intervals(compute.start_ns[worked], compute.end_ns[worked], gap=chosen.closed_ns)
        for state, begin, end in states(computing, _talking(facts, talked, chosen)):
            yield rank, _NAMES[state], begin, end


def _talking(facts: RunFacts, rows: IntArray, chosen: Chosen) -> list[Interval]:
    """From post to done; a receive whose payload came early can be done before it is posted, and takes no time."""
    post_ns = facts.spans.post_ns[rows]
    return joined_intervals(post_ns, np.maximum(post_ns, facts.spans.done_ns[rows]), gap=chosen.closed_ns)


def _kinds(facts: RunFacts, one: Iteration, chosen: Chosen) -> Iterator[tuple[int, str, int, int]]:
    spans = facts.spans
    mine = np.flatnonzero(spans.iteration == one.number)
    for rank in chosen.ranks:
        of_rank = mine[spans.rank[mine] == rank]
        for code in np.unique(spans.kind[of_rank]).tolist():
            for begin, end in _talking(facts, of_rank[spans.kind[of_rank] == code], chosen):
                yield rank, spans.kinds[code], begin, end
