"""Which rank is late, in which step, by how much, and whether that is more than chance.

Two events can be late: a post (the rank was not ready, and the others wait for it) and a completion (the rank finished
last). One collective proves nothing, because some rank is always last. The collectives of one iteration are not
independent either: one delay moves everything that depends on it. So iterations are the units of the test. Each
iteration names one rank, the one that was last more often than expected. A rank that more iterations name than chance
explains is a straggler.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.method.descriptive import median
from emulator.results.statistics.samples.measured_rows import block_starts, labels_and_codes, read_measured, to_ints
from emulator.trace.meaning.model import CommKind, IntArray

Event = Literal["post", "done"]
SIGNIFICANCE = 0.05
_LABELS = ("name", "kind", "group")
_NUMBERS = ("iteration", "rank", "instance", "group_size", "post_ns", "done_ns")


@dataclass(frozen=True, slots=True)
class RankLateness:
    """How often a rank was last in the collectives that it took part in.

    Attributes:
        last: collectives in which it was last, of `of`; `expected` if all members were equally likely.
        behind_ns: median time between it and the second last, where it was last: the waiting that it alone causes.
        iterations: iterations that name it, of `of_iterations`: it exceeded its expected number by more than any other.
        p: one-sided exact binomial test on iterations, multiplied by the number of ranks (Bonferroni).
    """

    rank: int
    last: int
    of: int
    expected: float
    behind_ns: float | None
    iterations: int
    of_iterations: int
    p: float

    @property
    def is_straggler(self) -> bool:
        """Late more often than chance explains."""
        return self.p < SIGNIFICANCE


@dataclass(frozen=True, slots=True)
class StepLateness:
    """A collective of the trace, and the rank that was last in it most often.

    Attributes:
        instance: the merged collective, as in samples.parquet; `name` is the name of its node.
        rank: last in `last` of `of` iterations.
        behind_ns: median time between it and the second last, in those iterations.
        spread_ns: median time between the first and the last rank, over all iterations.
        p: one-sided exact binomial test, multiplied by members and steps (Bonferroni).
    """

    instance: int
    name: str
    kind: str
    group: str
    members: int
    rank: int
    last: int
    of: int
    behind_ns: float | None
    spread_ns: float
    p: float


@dataclass(frozen=True, slots=True)
class Lateness:
    """Lateness of one event over the measured iterations: ranks by p, steps by median spread."""

    event: Event
    ranks: Sequence[RankLateness]
    steps: Sequence[StepLateness]

    @property
    def stragglers(self) -> Sequence[RankLateness]:
        """Ranks that are last more often than chance explains."""
        return [one for one in self.ranks if one.is_straggler]


def lateness(run: Run, event: Event = "post", *, steps: int = 10) -> Lateness:
    """Find out who is last. Sends, receives and groups of one are not counted.

    Args:
        event: `post`: who makes the others wait; `done`: who finishes last.

    Raises:
        ResultError: the samples are missing or damaged.
    """
    orders = _Orders(read_measured(run, RunTable.SAMPLES, [*_LABELS, *_NUMBERS]), event)
    ranks = sorted(_ranks(orders), key=lambda one: (one.p, -one.iterations, one.expected - one.last, one.rank))
    return Lateness(event, ranks, _steps(orders, limit=steps))


class _Orders:
    """In which order the members of each collective arrived at the event: by instance, then iteration.

    Attributes:
        last_rank: the rank that was last in each collective.
        behind_ns: its distance from the second last.
        spread_ns: its distance from the first.
    """

    def __init__(self, samples: pa.Table, event: Event) -> None:
        labels = {name: labels_and_codes(samples[name]) for name in _LABELS}
        self.labels = {name: found for name, (found, _) in labels.items()}
        columns = {name: to_ints(samples[name]) for name in _NUMBERS}
        columns |= {name: codes for name, (_, codes) in labels.items()}
        order = np.lexsort((columns["rank"], columns[f"{event}_ns"], columns["iteration"], columns["instance"]))
        paired = [n for n, kind in enumerate(self.labels["kind"]) if kind in (CommKind.SEND.label, CommKind.RECV.label)]
        order = order[(~np.isin(columns["kind"], paired) & (columns["group_size"] > 1))[order]]
        self._columns = {name: column[order] for name, column in columns.items()}
        starts = block_starts(self._columns["instance"], self._columns["iteration"])
        counts = np.diff(starts, append=len(order))
        complete = counts == self._columns["group_size"][starts]
        self._starts, self._counts = starts[complete], counts[complete]
        last, time_ns = self._starts + self._counts - 1, self._columns[f"{event}_ns"]
        self.last_rank = self._columns["rank"][last]
        self.behind_ns = time_ns[last] - time_ns[last - 1]
        self.spread_ns = time_ns[last] - time_ns[self._starts]

    def __len__(self) -> int:
        return len(self._starts)

    def first(self, name: str) -> IntArray:
        """A column of each collective, from its first member."""
        column: IntArray = self._columns[name][self._starts]
        return column

    def members(self) -> tuple[IntArray, IntArray]:
        """(collective, rank) of every member of every collective."""
        collective = np.repeat(np.arange(len(self)), self._counts)
        offset = np.arange(len(collective)) - np.repeat(np.cumsum(self._counts) - self._counts, self._counts)
        return collective, self._columns["rank"][self._starts[collective] + offset]


def _ranks(orders: _Orders) -> list[RankLateness]:
    if not len(orders):
        return []
    collective, member = orders.members()
    present, column = np.unique(member, return_inverse=True)
    iterations, iteration = np.unique(orders.first("iteration"), return_inverse=True)
    expected = np.zeros((len(iterations), len(present)))
    np.add.at(expected, (iteration[collective], column), 1 / orders.first("group_size")[collective])
    last, lost_ns = np.zeros_like(expected), np.zeros_like(expected)
    at = (iteration, np.searchsorted(present, orders.last_rank))
    np.add.at(last, at, 1)
    np.add.at(lost_ns, at, orders.behind_ns)
    # Among equals the rank that lost more time, so that the numbering of ranks does not decide.
    named = np.lexsort((-lost_ns, expected - last))[:, 0]
    hits = np.bincount(named, minlength=len(present))
    return [
        RankLateness(
            rank=rank,
            last=int(last[:, n].sum()),
            of=int(np.count_nonzero(column == n)),
            expected=float(expected[:, n].sum()),
            behind_ns=median(orders.behind_ns[orders.last_rank == rank]),
            iterations=int(hits[n]),
            of_iterations=len(iterations),
            p=_chance(int(hits[n]), len(iterations), 1 / len(present), tests=len(present)),
        )
        for n, rank in enumerate(present.tolist())
    ]


def _steps(orders: _Orders, *, limit: int) -> list[StepLateness]:
    """The steps with the largest median spread."""
    blocks = np.split(np.arange(len(orders)), block_starts(orders.first("instance"))[1:]) if len(orders) else []
    spread = [median(orders.spread_ns[rows]) or 0.0 for rows in blocks]
    largest = sorted(range(len(blocks)), key=lambda n: (-spread[n], n))[:limit]
    return [_step(orders, blocks[n], spread_ns=spread[n], steps=len(blocks)) for n in largest]


def _step(orders: _Orders, rows: IntArray, *, spread_ns: float, steps: int) -> StepLateness:
    ranks, counts = np.unique(orders.last_rank[rows], return_counts=True)
    rank, last = int(ranks[np.argmax(counts)]), int(counts.max())
    members = int(orders.first("group_size")[rows[0]])
    return StepLateness(
        instance=int(orders.first("instance")[rows[0]]),
        **{name: labels[orders.first(name)[rows[0]]] for name, labels in orders.labels.items()},
        members=members,
        rank=rank,
        last=last,
        of=len(rows),
        behind_ns=median(orders.behind_ns[rows][orders.last_rank[rows] == rank]),
        spread_ns=spread_ns,
        p=_chance(last, len(rows), 1 / members, tests=members * steps),
    )


def _chance(hits: int, trials: int, probability: float, *, tests: int) -> float:
    """Probability of at least this many hits, multiplied by the number of tests; at most 1."""
    # The first term, and the ratios to the next ones.
    if not hits or probability == 1:
        return 1.0
    ways = math.lgamma(trials + 1) - math.lgamma(hits + 1) - math.lgamma(trials - hits + 1)
    first = ways + hits * math.log(probability) + (trials - hits) * math.log1p(-probability)
    more = np.arange(hits, trials)
    ratios = np.log((trials - more) / (more + 1) * probability / (1 - probability))
    terms = np.exp(first + np.concatenate(([0.0], np.cumsum(ratios))))
    return min(1.0, tests * float(terms.sum()))
