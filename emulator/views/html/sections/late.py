"""Stragglers: which rank the others waited for, and at which step."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.statistics.stragglers import Lateness
from emulator.views.columns import Header
from emulator.views.figures import duration_cell, number_cell
from emulator.views.html.facts import RunFacts
from emulator.views.html.page.document import Block, Section, Table, Text

RANKS, STEPS = 16, 10
_ABOUT = (
    "Somebody is always last. A rank is called a straggler when it is last more often than chance gives: iterations "
    "are the units; the exact binomial test is one-sided and corrected for the number of ranks; p below 0.05 counts."
)


def stragglers(facts: RunFacts) -> Section:
    """Who was last, in posting and in completing."""
    title = "Stragglers"
    if facts.late_posts is None or facts.late_ends is None:
        return Section("stragglers", title, [Text("no-stragglers", "Worked out when the run ends.", "note")])
    if not facts.late_posts.ranks:
        text = "No collective of two ranks or more was completed in a measured iteration."
        return Section("stragglers", title, [Text("no-stragglers", text, "note")])
    blocks: list[Block] = [
        Text("straggler-sentence", f"{_found(facts.late_posts)} {_found(facts.late_ends)}"),
        _ranks(facts.late_posts, "Last to post: who let the others wait"),
        _ranks(facts.late_ends, "Last to complete: who was served last"),
        _steps(facts.late_posts),
    ]
    return Section("stragglers", title, blocks, _ABOUT)


def _found(late: Lateness) -> str:
    what = "to post" if late.event == "post" else "to complete"
    named = [f"rank {one.rank} (p = {number_cell(one.p)})" for one in late.stragglers]
    if not named:
        return f"No rank was last {what} more often than chance gives."
    return f"Last {what} more often than chance gives: {', '.join(named)}."


def _ranks(late: Lateness, caption: str) -> Table:
    titles = ["rank", "last in", "of", "expected", "behind", "iterations", "p"]
    rows = [
        [
            str(one.rank),
            f"{one.last:,}",
            f"{one.of:,}",
            number_cell(one.expected),
            duration_cell(one.behind_ns),
            f"{one.iterations} of {one.of_iterations}",
            number_cell(one.p),
        ]
        for one in late.ranks[:RANKS]
    ]
    more = f"; {len(late.ranks) - RANKS} more ranks are less often last" if len(late.ranks) > RANKS else ""
    about = (
        "last in: collectives; expected: were all members alike; behind: median time after the member before it; "
        f"iterations: those in which it was last most{more}."
    )
    return Table(f"late-{late.event}", caption, [Header(title) for title in titles], rows, about, is_folded=True)


def _steps(late: Lateness) -> Table:
    columns = ["step", "kind", "group", "members", "first to last post", "rank last", "last in", "behind", "p"]
    rows: Sequence[list[str]] = [
        [
            one.name,
            one.kind,
            one.group,
            str(one.members),
            duration_cell(one.spread_ns),
            str(one.rank),
            f"{one.last} of {one.of}",
            duration_cell(one.behind_ns),
            number_cell(one.p),
        ]
        for one in late.steps[:STEPS]
    ]
    titles = [Header(title, is_number=at > 2) for at, title in enumerate(columns)]
    about = "Collectives of the trace with the largest median time between the first and the last post."
    return Table("late-steps", "Steps with most waiting", titles, rows, about, is_folded=True)
