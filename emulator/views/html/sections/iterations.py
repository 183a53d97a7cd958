"""Iterations and ranks: how long iterations took, and how every rank spent them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from emulator.statistics.stats import median
from emulator.trace.model import IntArray
from emulator.views.columns import Header
from emulator.views.figures import duration_cell
from emulator.views.html.facts import RunFacts
from emulator.views.html.page.document import Block, Chart, Section, Table, Text
from emulator.views.html.page.pictures import Picture, Rows
from emulator.views.html.page.reduction import stretches
from emulator.views.html.sections.chosen import Chosen, Iteration, choose, whole_iterations
from emulator.views.html.sections.time_line import time_lines

POINTS = 240
_STATES = ("compute", "both", "exposed communication", "neither")


def iterations(facts: RunFacts) -> Section:
    """JCT by iteration, usage and time line of ranks."""
    whole = list(whole_iterations(facts))
    counted = [one for one in whole if one.number >= 0 and one.number not in facts.excluded]
    if not counted:
        text = "No measured iteration was completed by all ranks."
        return Section("iterations", "Iterations and ranks", [Text("no-iterations", text, "note")])
    chosen = choose(facts, counted)
    blocks: list[Block] = [_jct(facts, whole), _usage(facts, chosen), *time_lines(facts, chosen)]
    return Section("iterations", "Iterations and ranks", blocks)


def _jct(facts: RunFacts, whole: Sequence[Iteration]) -> Chart:
    number = np.array([one.number for one in whole], np.int64)
    jct = np.array([one.jct_ns for one in whole], np.int64)
    bars = Rows()
    for stretch in stretches(number, most=POINTS):
        jct_ns = int(median(jct[stretch.rows]) or 0)
        bars.add(iteration=stretch.first, jct_ns=jct_ns, what=_what(facts, stretch.first))
    middle = facts.summary.iteration
    rows = [[str(one.number), _what(facts, one.number), duration_cell(one.jct_ns)] for one in whole[:POINTS]]
    titles = [Header("iteration"), Header("counted as", is_number=False), Header("JCT")]
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


def _usage(facts: RunFacts, chosen: Chosen) -> Chart:
    """How long each rank did what; together its part of the iteration."""
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
        "How every rank spent the iteration",
        "Of the JCT: the device computing, both at once, communication that no compute hid (exposed), neither. "
        f"{chosen.in_words().partition(' Pauses')[0]}",
        "Stacked bars, one for each rank: compute, overlap, exposed communication and neither.",
        Picture("rank_usage", {"usage": usage.columns}, "iteration", chosen.options),
        Table("rank-usage-table", f"How every rank spent iteration {first.number}", titles, table),
        "Iteration",
    )


def _spent(usage: Mapping[str, IntArray], row: int, one: Iteration) -> tuple[int, int, int, int]:
    compute, communication, both = (int(usage[f"{name}_ns"][row]) for name in ("compute", "communication", "overlap"))
    rest = one.jct_ns - compute - communication + both
    return compute - both, both, communication - both, max(rest, 0)
