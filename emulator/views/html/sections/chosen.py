"""Selects the iterations and ranks that a report shows: the interesting ones, and as many as a page can hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from emulator.results.statistics.method.descriptive import median_index
from emulator.results.statistics.samples.iterations import played_iterations
from emulator.trace.meaning.model import IntArray
from emulator.units import format_duration
from emulator.views.html.facts import PageFacts
from emulator.views.html.page.reduction import spread_evenly

MOST_ITERATIONS, FEWEST_ITERATIONS = 16, 3
LANES = 48
"""Most ranks in a chart with a lane per rank."""
INTERVALS = 9_000
"""Approximate limit of bars in a chart, over all iterations and ranks."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """An iteration that all ranks completed.

    Attributes:
        rows: its rows in iterations.parquet, by rank.
        start_ns: of its first rank.
        jct_ns: see emulator.results.statistics.samples.iterations: with the pace `continuous` it may begin later.
    """

    number: int
    rows: IntArray
    start_ns: int
    jct_ns: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """Iterations and ranks to show.

    Attributes:
        iterations: label -> iteration: the median, the fastest, the slowest, then others spread evenly.
        ranks: ascending.
        closed_ns: gaps shorter than this are not drawn; 0 = every gap is drawn.
        of_ranks: ranks of the run.
    """

    iterations: Mapping[str, Iteration]
    ranks: Sequence[int]
    closed_ns: float
    of_ranks: int

    @property
    def options(self) -> list[tuple[str, str]]:
        """(number, label) of the iterations, for a select box."""
        return [(str(one.number), label) for label, one in self.iterations.items()]

    def in_words(self) -> str:
        """Which ranks are shown, and what is simplified."""
        every = len(self.ranks) == self.of_ranks
        shown = f"All {self.of_ranks} ranks." if every else f"{len(self.ranks)} of {self.of_ranks:,} ranks."
        closed = f" Gaps shorter than {format_duration(self.closed_ns)} are not drawn." if self.closed_ns else ""
        return shown + closed


def whole_iterations(facts: PageFacts) -> Iterator[Iteration]:
    """Iterations that every rank reported, including warm-up and excluded ones."""
    usage = facts.usage
    for number, rows, span in played_iterations(usage, facts.manifest):
        by_rank = rows[np.argsort(usage["rank"][rows], kind="stable")]
        yield Iteration(number, by_rank, int(usage["start_ns"][rows].min()), span.duration_ns)


def choose(facts: PageFacts, counted: Sequence[Iteration], *, lanes: int = LANES, intervals: int = INTERVALS) -> Chosen:
    """Select from the measured iterations, at least one; at most so many ranks, and about so many bars."""
    ranks = _lanes(facts, counted[0], lanes)
    spans = facts.spans
    each = int(np.count_nonzero((spans.iteration == counted[0].number) & np.isin(spans.rank, ranks)))
    fitting = int(np.clip(intervals // max(each, 1), FEWEST_ITERATIONS, MOST_ITERATIONS))
    iterations = dict(_labelled(counted, most=fitting))
    longest = max(one.jct_ns for one in iterations.values())
    whole_ns = longest * len(iterations) * len(ranks)
    closed_ns = whole_ns / intervals if each * len(iterations) > intervals else 0.0
    return Chosen(iterations, ranks, closed_ns, facts.manifest.trace.ranks)


def _labelled(counted: Sequence[Iteration], *, most: int) -> Iterator[tuple[str, Iteration]]:
    jct = np.array([one.jct_ns for one in counted], np.int64)
    named = {median_index(jct): "median"}
    for at, name in ((int(jct.argmin()), "fastest"), (int(jct.argmax()), "slowest")):
        named.setdefault(at, name)
    others = [at for at in range(len(counted)) if at not in named]
    for at in [*named, *spread_evenly(others, max(0, most - len(named)))]:
        name = f", the {named[at]}" if at in named and len(counted) > 1 else ""
        yield f"iteration {counted[at].number}: {format_duration(counted[at].jct_ns)}{name}", counted[at]


def _lanes(facts: PageFacts, one: Iteration, most: int) -> list[int]:
    """All ranks; if there are too many, some of them spread evenly and the one that finished last."""
    ranks: list[int] = facts.usage["rank"][one.rows].tolist()
    if len(ranks) <= most:
        return ranks
    slowest = facts.summary.iteration.slowest_rank if facts.summary.iteration else ranks[0]
    return sorted({*spread_evenly(ranks, most - 1), slowest})
