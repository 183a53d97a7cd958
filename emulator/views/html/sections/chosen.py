"""Which iterations and ranks stand in a page: those that a reader looks for first, and as many as it can hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from emulator.statistics.stats import median_index
from emulator.trace.model import IntArray
from emulator.units import format_duration
from emulator.views.html.facts import RunFacts
from emulator.views.html.page.reduction import spread_evenly

MOST_ITERATIONS, FEWEST_ITERATIONS = 16, 3
LANES = 48
"""Ranks in a picture with a lane for each."""
INTERVALS = 9_000
"""Of all iterations and ranks of a picture together, about."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """An iteration that all ranks completed: its number, and its rows in iterations.parquet by rank."""

    number: int
    rows: IntArray
    start_ns: int
    jct_ns: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is shown.

    Attributes:
        iterations: label → iteration: the median, the fastest, the slowest, then others evenly.
        ranks: ascending.
        closed_ns: pauses shorter than this are not drawn; 0 where all are.
        of_ranks: how many there are.
    """

    iterations: Mapping[str, Iteration]
    ranks: Sequence[int]
    closed_ns: float
    of_ranks: int

    @property
    def options(self) -> list[tuple[str, str]]:
        """For the reader to choose from."""
        return [(str(one.number), label) for label, one in self.iterations.items()]

    def in_words(self) -> str:
        """Which ranks, and what is simplified."""
        every = len(self.ranks) == self.of_ranks
        said = f"All {self.of_ranks} ranks." if every else f"{len(self.ranks)} of {self.of_ranks:,} ranks."
        closed = f" Pauses shorter than {format_duration(self.closed_ns)} are closed." if self.closed_ns else ""
        return said + closed


def whole_iterations(facts: RunFacts) -> Iterator[Iteration]:
    """Those that every rank reported, warm-up and excluded ones among them."""
    usage = facts.usage
    for number in np.unique(usage["iteration"]).tolist():
        rows = np.flatnonzero(usage["iteration"] == number)
        if len(rows) == facts.manifest.trace.ranks:
            rows = rows[np.argsort(usage["rank"][rows], kind="stable")]
            start, end = int(usage["start_ns"][rows].min()), int(usage["end_ns"][rows].max())
            yield Iteration(number, rows, start, end - start)


def choose(facts: RunFacts, counted: Sequence[Iteration]) -> Chosen:
    """Choose from the measured iterations, at least one."""
    ranks = _lanes(facts, counted[0])
    spans = facts.spans
    each = int(np.count_nonzero((spans.iteration == counted[0].number) & np.isin(spans.rank, ranks)))
    fitting = int(np.clip(INTERVALS // max(each, 1), FEWEST_ITERATIONS, MOST_ITERATIONS))
    iterations = dict(_labelled(counted, most=fitting))
    longest = max(one.jct_ns for one in iterations.values())
    lanes = len(iterations) * len(ranks)
    closed_ns = longest * lanes / INTERVALS if each * len(iterations) > INTERVALS else 0.0
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


def _lanes(facts: RunFacts, one: Iteration) -> list[int]:
    """All ranks, or some of them evenly, and the one that ended last."""
    ranks: list[int] = facts.usage["rank"][one.rows].tolist()
    if len(ranks) <= LANES:
        return ranks
    slowest = facts.summary.iteration.slowest_rank if facts.summary.iteration else ranks[0]
    return sorted({*spread_evenly(ranks, LANES - 1), slowest})
