"""Stragglers: which rank the others wait for, and in which step."""

from __future__ import annotations

from emulator.results.statistics.worst.stragglers import Lateness, RankLateness, StepLateness
from emulator.views.columns.columns import Column
from emulator.views.columns.figures import count_cell, count_of, duration_cell, number_cell
from emulator.views.html.facts import PageFacts
from emulator.views.html.page.document import Block, PageSection, Table, Text, table_of

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
