"""Which rank is late, at which step, by how much, and whether that is more than chance.

Two things can be late: a post (the rank was not ready, the others wait for it) and a completion (the rank was served
last). A collective alone says nothing: somebody is always last. Nor are the collectives of one iteration independent:
one delay moves all that depends on it. So iterations are the units: each names one rank, the one that was last more
often than its share, and a rank that is named in more iterations than chance gives is a straggler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from emulator.run_folder.reader import Run
from emulator.run_folder.schema import Part
from emulator.statistics.collectives import labels_and_codes, to_ints
from emulator.statistics.stats import median
from emulator.statistics.summary import read_measured
from emulator.trace.model import BoolArray, CommKind, IntArray

Event = Literal["post", "done"]
SIGNIFICANT = 0.05
_COLUMNS = ("iteration", "rank", "instance", "name", "kind", "group", "group_size", "post_ns", "done_ns")


@dataclass(frozen=True, slots=True)
class RankLateness:
    """How often a rank was last in the collectives it took part in.

    Attributes:
        last: collectives where it was the last one; `of` those it took part in; `expected` were all members alike.
        behind_ns: median time between it and the one before it, where it was last: waiting that is due to it alone.
        iterations: where it was last more often than its share, more than any other rank; `of_iterations`.
        p: one-sided exact binomial test on iterations, times the ranks (Bonferroni): every rank had the chance.
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
        """More than chance."""
        return self.p < SIGNIFICANT


@dataclass(frozen=True, slots=True)
class StepLateness:
    """A collective of the trace and the rank that was last in it most often.

    Attributes:
        instance: the merged collective, as in samples.parquet; `name` is its node's.
        rank: last in `last` of `of` iterations.
        behind_ns: median time between it and the one before it, in those iterations.
        spread_ns: median time between the first and the last one, over all iterations.
        p: one-sided exact binomial test, times members and steps (Bonferroni).
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
    """Of one event, over the measured iterations; ranks that are last most often first, steps by time lost."""

    event: Event
    ranks: Sequence[RankLateness]
    steps: Sequence[StepLateness]

    @property
    def stragglers(self) -> Sequence[RankLateness]:
        """Ranks that are last more often than chance gives."""
        return [one for one in self.ranks if one.is_straggler]


def lateness(run: Run, event: Event = "post", *, steps: int = 10) -> Lateness:
    """Who is last. Sends, receives and groups of one have no last.

    Args:
        run: closed or not.
        event: `post`: who let the others wait; `done`: who was served last.
        steps: how many at most.

    Raises:
        ResultError: the samples are missing or damaged.
    """
    races = _Races(run, event)
    ranks = sorted(_ranks(races), key=lambda one: (one.p, -one.iterations, one.expected - one.last, one.rank))
    return Lateness(event, ranks, _steps(races, most=steps))


class _Races:
    """Every collective of every iteration: who was last in it. Rows by instance, then iteration."""

    def __init__(self, run: Run, event: Event) -> None:
        table = read_measured(run, Part.SAMPLES, _COLUMNS)
        columns = {name: to_ints(table[name]) for name in _COLUMNS if name not in ("name", "kind", "group")}
        labels = {name: labels_and_codes(table[name]) for name in ("name", "kind", "group")}
        self.labels = {name: found for name, (found, _) in labels.items()}
        columns |= {name: codes for name, (_, codes) in labels.items()}
        columns = {name: column[_is_raced(columns, self.labels["kind"])] for name, column in columns.items()}
        time = columns[f"{event}_ns"]
        order = np.lexsort((columns["rank"], time, columns["iteration"], columns["instance"]))
        columns = {name: column[order] for name, column in columns.items()}
        self._columns, self._time = columns, time[order]
        fresh = (np.diff(columns["instance"]) != 0) | (np.diff(columns["iteration"]) != 0)
        self._starts = np.flatnonzero(np.concatenate(([len(order) > 0], fresh)))
        self._counts = np.diff(self._starts, append=len(order))
        whole = self._counts == columns["group_size"][self._starts]
        self._starts, self._counts = self._starts[whole], self._counts[whole]
        ends = self._starts + self._counts - 1
        self.last_rank = columns["rank"][ends]
        self.behind_ns = self._time[ends] - self._time[ends - 1]
        self.spread_ns = self._time[ends] - self._time[self._starts]

    def __len__(self) -> int:
        return len(self._starts)

    def first(self, name: str) -> IntArray:
        """A column that the members of a collective share, or the first one's."""
        return self._columns[name][self._starts]

    def entries(self) -> tuple[IntArray, IntArray]:
        """(race, rank) of every member of every race."""
        race = np.repeat(np.arange(len(self)), self._counts)
        offset = np.arange(len(race)) - np.repeat(np.cumsum(self._counts) - self._counts, self._counts)
        return race, self._columns["rank"][self._starts[race] + offset]


def _is_raced(columns: dict[str, IntArray], kinds: Sequence[str]) -> BoolArray:
    paired = [code for code, label in enumerate(kinds) if label in (CommKind.SEND.label, CommKind.RECV.label)]
    return np.asarray(~np.isin(columns["kind"], paired) & (columns["group_size"] > 1))


def _ranks(races: _Races) -> list[RankLateness]:
    if not len(races):
        return []
    race, member = races.entries()
    present, column = np.unique(member, return_inverse=True)
    iterations, iteration = np.unique(races.first("iteration"), return_inverse=True)
    expected = np.zeros((len(iterations), len(present)))
    np.add.at(expected, (iteration[race], column), 1 / races.first("group_size")[race])
    last, lost = np.zeros_like(expected), np.zeros_like(expected)
    at = (iteration, np.searchsorted(present, races.last_rank))
    np.add.at(last, at, 1)
    np.add.at(lost, at, races.behind_ns)
    # Of equals the one that lost more time, so that the order of ranks decides nothing.
    named = np.lexsort((-lost, expected - last))[:, 0]
    hits = np.bincount(named, minlength=len(present))
    return [
        RankLateness(
            rank=rank,
            last=int(last[:, n].sum()),
            of=int(np.count_nonzero(column == n)),
            expected=float(expected[:, n].sum()),
            behind_ns=median(races.behind_ns[races.last_rank == rank]),
            iterations=int(hits[n]),
            of_iterations=len(iterations),
            p=_chance(int(hits[n]), len(iterations), 1 / len(present), chances=len(present)),
        )
        for n, rank in enumerate(present.tolist())
    ]


def _steps(races: _Races, *, most: int) -> list[StepLateness]:
    """Those with the largest median spread."""
    _, starts = np.unique(races.first("instance"), return_index=True)
    blocks = np.split(np.arange(len(races)), starts[1:]) if len(starts) else []
    spread = [median(races.spread_ns[rows]) or 0.0 for rows in blocks]
    order = sorted(range(len(blocks)), key=lambda n: (-spread[n], n))[:most]
    return [_step(races, blocks[n], spread_ns=spread[n], steps=len(blocks)) for n in order]


def _step(races: _Races, rows: IntArray, *, spread_ns: float, steps: int) -> StepLateness:
    ranks, counts = np.unique(races.last_rank[rows], return_counts=True)
    rank, last = int(ranks[np.argmax(counts)]), int(counts.max())
    facts = {name: int(races.first(name)[rows[0]]) for name in ("instance", "name", "kind", "group", "group_size")}
    members = facts["group_size"]
    return StepLateness(
        instance=facts["instance"],
        **{name: races.labels[name][facts[name]] for name in ("name", "kind", "group")},
        members=members,
        rank=rank,
        last=last,
        of=len(rows),
        behind_ns=median(races.behind_ns[rows][races.last_rank[rows] == rank]),
        spread_ns=spread_ns,
        p=_chance(last, len(rows), 1 / members, chances=members * steps),
    )


def _chance(hits: int, trials: int, probability: float, *, chances: int) -> float:
    """How probable so many hits or more are for any one in that had the chance; 1 at most."""
    from scipy import special  # scipy.stats has the test by name, and takes three times as long to load

    return min(1.0, chances * float(special.bdtrc(hits - 1, trials, probability)))
