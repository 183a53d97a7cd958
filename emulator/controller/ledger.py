"""Whether what agents report of a job adds up: their own ranks, every communication once, at possible times.

A report is checked for what it is about as it comes, by columns. That an iteration is complete is checked later, so
that nobody waits for it; the job does not end before. What agents say beyond that is their word.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from emulator.control.observations import Completions, ComputeSpans, FlowCounters, RankSummary, StepRecords
from emulator.controller.run_plan import RunPlan
from emulator.errors import RemoteProtocolError
from emulator.trace.meaning.model import IdArray, IntArray

TOLERANCE_NS = 1_000_000
"""Of stamps that the kernel makes, which are converted from another clock."""


@dataclass(frozen=True, slots=True)
class PossibleTimes:
    """When something can have been, on the controller's clock, ns."""

    start_ns: int
    end_ns: int


@dataclass(slots=True)
class _Account:
    """Of one agent.

    Attributes:
        ends: ranks and storage endpoints.
        ranks: alone, ascending.
        plays: by end, whether it is one of the ranks.
        keys: of all communications of an iteration, ascending.
        reported: iteration → keys of what was reported of it.
        finished: the newest iteration that it has completed.
    """

    ends: frozenset[int]
    ranks: Sequence[int]
    plays: np.ndarray[tuple[int], np.dtype[np.bool_]]
    keys: IntArray
    reported: dict[int, list[IntArray]] = field(default_factory=dict)
    finished: int | None = None


class Ledger:
    """What is to be reported of a job, and what was.

    Args:
        plan: of the job.
    """

    def __init__(self, plan: RunPlan) -> None:
        programs = plan.workload.programs
        self._count = len(plan.hosts)
        nodes = [np.array([one.node_id for one in program.communications.values()], np.uint64) for program in programs]
        self._node_ids = np.unique(np.concatenate([*nodes, np.zeros(0, np.uint64)]))
        self._accounts: dict[str, _Account] = {}
        self._unchecked: list[tuple[str, int]] = []
        for agent, ends in plan.ranks_of.items():
            ranks = sorted(end for end in ends if not plan.is_storage(end))
            plays = np.zeros(len(programs), np.bool_)
            plays[ranks] = True
            keys = [self._keys(np.full(len(nodes[rank]), rank, np.int64), nodes[rank]) for rank in ranks]
            expected = np.sort(np.concatenate([*keys, np.zeros(0, np.int64)]))
            self._accounts[agent] = _Account(frozenset(ends), ranks, plays, expected)

    def completed(self, agent: str, done: Completions, span: PossibleTimes) -> None:
        """Take in completions, with their times on the controller's clock.

        Raises:
            RemoteProtocolError: of ranks that the agent does not play, of an iteration that it has completed, more
                than there are, or at times that cannot be.
        """
        account = self._accounts[agent]
        self._check_ranks(agent, done.rank, "completions")
        if account.finished is not None and done.iteration <= account.finished:
            raise _wrong(agent, f"sent completions of iteration {done.iteration} after it had ended there")
        if not len(done.rank):
            return
        if not len(account.keys):
            raise _wrong(agent, f"sent completions of rank {done.rank[0]}, which has no communications")
        posted, ended, arrived = done.post_ns, done.done_ns, done.arrival_ns
        if bool((posted > ended).any()):
            raise _wrong(agent, "sent completions that ended before they were posted")
        _check_times(agent, "completions", span, int(posted.min()), int(max(ended.max(), arrived.max())))
        keys = self._keys(done.rank, done.node_id)
        known = np.take(self._node_ids, keys % len(self._node_ids), mode="clip") == done.node_id
        known &= np.take(account.keys, np.searchsorted(account.keys, keys), mode="clip") == keys
        if not known.all():
            first = int(np.argmin(known))
            node = f"node {done.node_id[first]} of rank {done.rank[first]}"
            raise _wrong(agent, f"sent a completion of {node}, which is not a communication of its trace")
        reported = account.reported.setdefault(done.iteration, [])
        reported.append(keys)
        if sum(map(len, reported)) > len(account.keys):
            raise _wrong(agent, f"sent more completions of iteration {done.iteration} than its ranks have")

    def computed(self, agent: str, spans: ComputeSpans, span: PossibleTimes) -> None:
        """Check when devices were busy; errors as of `completed`."""
        self._check_ranks(agent, spans.rank, "compute spans")
        if len(spans.rank):
            _check_times(agent, "compute spans", span, int(spans.start_ns.min()), int(spans.end_ns.max()))

    def steps_recorded(self, agent: str, records: StepRecords) -> None:
        """Check whose steps these are; errors as of `completed`."""
        self._check_ranks(agent, np.array([one.rank for one in records.blocks], np.int64), "steps")

    def flows(self, agent: str, flows: Iterable[FlowCounters]) -> None:
        """Check that the agent has an end of every flow.

        Raises:
            RemoteProtocolError: it has not, or there is no such rank.
        """
        own = self._accounts[agent].ends
        for one in flows:
            if not (one.src in own or one.dst in own) or max(one.src, one.dst) >= self._count:
                raise _wrong(agent, f"sent counters of a flow from rank {one.src} to rank {one.dst}, which it has not")

    def finished(self, agent: str, iteration: int, summaries: Collection[RankSummary], span: PossibleTimes) -> None:
        """The agent says that its ranks have completed an iteration; whether that is so is looked at by `check`.

        Raises:
            RemoteProtocolError: it is not exactly one summary for each of its ranks, or at times that cannot be.
        """
        account = self._accounts[agent]
        if sorted(one.rank for one in summaries) != account.ranks:
            raise _wrong(agent, f"ended iteration {iteration} for other ranks than it plays")
        if summaries:
            first, last = min(one.start_ns for one in summaries), max(one.end_ns for one in summaries)
            _check_times(agent, "summaries", span, first, last)
        account.finished = iteration
        self._unchecked.append((agent, iteration))

    def check(self) -> None:
        """Check the iterations that agents have completed since the last call.

        Raises:
            RemoteProtocolError: a communication was not reported exactly once.
        """
        unchecked, self._unchecked = self._unchecked, []
        for agent, iteration in unchecked:
            account = self._accounts[agent]
            found = np.sort(np.concatenate([*account.reported.pop(iteration, ()), np.zeros(0, np.int64)]))
            if not np.array_equal(found, account.keys):
                raise _wrong(agent, f"ended iteration {iteration}, but {self._difference(account.keys, found)}")

    def _difference(self, expected: IntArray, found: IntArray) -> str:
        """Keys are not the same: no more than expected, and all of known communications, so some are missing."""
        missing = np.setdiff1d(expected, found)
        rank, place = divmod(int(missing[0]), len(self._node_ids))
        return (
            f"{len(missing):,} of {len(expected):,} completions are missing, among them node "
            f"{self._node_ids[place]} of rank {rank}"
        )

    def _keys(self, rank: IntArray, node_id: IdArray) -> IntArray:
        """A number for each communication; that of an unknown node means nothing."""
        keys: IntArray = rank * len(self._node_ids) + np.searchsorted(self._node_ids, node_id)
        return keys

    def _check_ranks(self, agent: str, rank: IntArray, what: str) -> None:
        plays = self._accounts[agent].plays
        strange = rank[(rank < 0) | (rank >= len(plays))]
        if not len(strange):
            strange = rank[~plays[rank]]
        if len(strange):
            raise _wrong(agent, f"sent {what} of rank {strange[0]}, which it does not play")


def span_of(starts_ns: int, now_ns: int, *, error_ns: int) -> PossibleTimes:
    """From a start until now, by the clock of an agent that may be off by so much."""
    slack_ns = error_ns + TOLERANCE_NS
    return PossibleTimes(starts_ns - slack_ns, now_ns + slack_ns)


def _check_times(agent: str, what: str, span: PossibleTimes, first_ns: int, last_ns: int) -> None:
    if first_ns < span.start_ns:
        early_s = (span.start_ns - first_ns) / 1e9
        raise _wrong(agent, f"sent {what} with times {early_s:g} s before the iteration began")
    if last_ns > span.end_ns:
        raise _wrong(agent, f"sent {what} with times {(last_ns - span.end_ns) / 1e9:g} s in the future")


def _wrong(agent: str, problem: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"agent {agent} {problem}")
