"""Whether what agents report of a job adds up: their own ranks, every communication once, at possible times.

A report is checked for what it is about as it comes, by columns. That an iteration is complete is checked later, so
that nobody waits for it; the job does not end before. What agents say beyond that is their word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from emulator.control.conversation import Farewell
from emulator.control.observations import (
    ChainRecords,
    Completions,
    ComputeSpans,
    FlowCounters,
    Medium,
    Migration,
    RankSummary,
    StepRecords,
    Timeline,
    TimelineFlow,
)
from emulator.controller.run_plan import RunPlan
from emulator.errors import RemoteProtocolError
from emulator.roce.options import RoceOptions
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
        unchecked: what it has completed since the last check.
    """

    ends: frozenset[int]
    ranks: Sequence[int]
    plays: np.ndarray[tuple[int], np.dtype[np.bool_]]
    keys: IntArray
    reported: dict[int, list[IntArray]] = field(default_factory=dict)
    finished: int | None = None
    unchecked: list[int] = field(default_factory=list)


class Ledger:
    """What is to be reported of a job, and what was.

    Args:
        plan: of the job.
    """

    def __init__(self, plan: RunPlan) -> None:
        programs = plan.workload.programs
        self._count = len(plan.setup.ranks)
        options = plan.setup.options
        self._has_timeline = isinstance(options, RoceOptions) and options.timeline_bin_ns > 0
        self._survives = isinstance(options, RoceOptions) and options.survive
        nodes = [np.array([one.node_id for one in program.communications.values()], np.uint64) for program in programs]
        self._node_ids = np.unique(np.concatenate([*nodes, np.zeros(0, np.uint64)]))
        self._accounts: dict[str, _Account] = {}
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
        first = min(posted.min(), np.where(arrived == 0, posted, arrived).min())
        _check_times(agent, "completions", span, int(first), int(max(ended.max(), arrived.max())))
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
            if bool((spans.start_ns > spans.end_ns).any()):
                raise _wrong(agent, "sent compute spans that ended before they began")
            _check_times(agent, "compute spans", span, int(spans.start_ns.min()), int(spans.end_ns.max()))

    def steps_recorded(self, agent: str, records: StepRecords) -> None:
        """Check whose steps these are; errors as of `completed`."""
        self._check_ranks(agent, np.array([one.rank for one in records.blocks], np.int64), "steps")

    def chains_recorded(self, agent: str, records: ChainRecords) -> None:
        """Check whose chains these are; errors as of `completed`."""
        self._check_ranks(agent, np.array([one.rank for one in records.blocks], np.int64), "chains")

    def flows(self, agent: str, flows: Iterable[FlowCounters]) -> None:
        """Check that the agent has an end of every flow, and reports each end once.

        Raises:
            RemoteProtocolError: it has not, there is no such rank, or what a flow carried would count twice.
        """
        own = self._accounts[agent].ends
        ends = Counter[tuple[int, int, int | None]]()
        for one in flows:
            if not (one.src in own or one.dst in own) or max(one.src, one.dst) >= self._count:
                raise _wrong(agent, f"sent counters of a flow from rank {one.src} to rank {one.dst}, which it has not")
            key = one.src, one.dst, one.qpn
            ends[key] += 1
            if ends[key] > (one.src in own) + (one.dst in own):
                raise _wrong(agent, f"sent counters of the flow from rank {one.src} to rank {one.dst} twice")

    def recorded(self, agent: str, timeline: Timeline, span: PossibleTimes) -> None:
        """Check that the agent has the end that counted what it says of each flow by time.

        Raises:
            RemoteProtocolError: it has not, or at times that cannot be.
        """
        own = self._accounts[agent].ends
        for (src, dst, _), (size, again, marks) in zip(timeline.flows, _sums(timeline), strict=True):
            if (dst not in own and (size or marks)) or (src not in own and again):
                raise _wrong(agent, f"sent a timeline of the flow from rank {src} to rank {dst}, which it cannot count")
        if len(timeline.start_ns):
            first, last = int(timeline.start_ns.min()), int(timeline.start_ns.max())
            _check_times(agent, "a timeline", span, first + timeline.bin_ns, last)

    def migrated(self, agent: str, migrations: Sequence[Migration], span: PossibleTimes) -> None:
        """Check that the agent plays the ranks whose traffic moved to another path.

        Raises:
            RemoteProtocolError: it does not, there is no such rank or no second path, or at times that cannot be.
        """
        own = self._accounts[agent].ends
        for one in migrations:
            if one.rank not in own or one.peer >= self._count or not self._survives:
                raise _wrong(agent, f"sent a migration from rank {one.rank} to rank {one.peer}, which it has not")
        times = [one.at_ns for one in migrations]
        _check_times(agent, "migrations", span, min(times), max(times))

    def add_up(self, farewells: Mapping[str, Farewell]) -> None:
        """Check that what flows carried by time is what they carried in all, once every agent has said both.

        Raises:
            RemoteProtocolError: it is not; the message names the agent that counted it by time.
        """
        if not self._has_timeline:
            return
        left: dict[TimelineFlow, list[int]] = {}
        for agent, farewell in farewells.items():
            if farewell.timeline is None:
                raise _wrong(agent, "sent no timeline")
            for one in farewell.flows:
                if one.medium is Medium.WIRE and one.qpn is not None:
                    counted = left.setdefault(TimelineFlow(one.src, one.dst, one.qpn), [0, 0, 0])
                    for at, name in enumerate(_RECORDED):
                        counted[at] += getattr(one, name) or 0
            for flow, sums in zip(farewell.timeline.flows, _sums(farewell.timeline), strict=True):
                counted = left.setdefault(flow, [0, 0, 0])
                for at, number in enumerate(sums):
                    counted[at] -= number
        for flow, differences in left.items():
            for name, difference in zip(_RECORDED, differences, strict=True):
                if difference:
                    raise _wrong(
                        self._agent_of(flow.src if name == "retransmits" else flow.dst),
                        f"sent a timeline of the flow from rank {flow.src} to rank {flow.dst} (queue pair {flow.qpn}) "
                        f"in which {abs(difference):,} {name} {'are missing' if difference > 0 else 'are too many'}",
                    )

    def _agent_of(self, end: int) -> str:
        return next((name for name, account in self._accounts.items() if end in account.ends), "?")

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
            if any(one.start_ns > one.end_ns for one in summaries):
                raise _wrong(agent, "sent summaries that ended before they began")
            longest_ns = max(max(one.compute_ns, one.communication_ns, one.overlap_ns) for one in summaries)
            if longest_ns > span.end_ns - span.start_ns:
                raise _wrong(agent, f"sent summaries with {longest_ns / 1e9:g} s, longer than the iteration")
        account.finished = iteration
        account.unchecked.append(iteration)

    def check(self) -> None:
        """Check the iterations that agents have completed since the last call.

        Raises:
            RemoteProtocolError: a communication was not reported exactly once.
        """
        for agent, account in self._accounts.items():
            iterations, account.unchecked = account.unchecked, []
            found = [np.concatenate([*account.reported.pop(one, ()), np.zeros(0, np.int64)]) for one in iterations]
            is_wrong = np.array([len(keys) != len(account.keys) for keys in found], np.bool_)
            if found and not is_wrong.any():  # together: there may be hundreds of short ones
                is_wrong = (np.sort(np.stack(found), axis=1) != account.keys).any(axis=1)
            for place in np.flatnonzero(is_wrong).tolist():
                problem = self._difference(account.keys, found[place])
                raise _wrong(agent, f"ended iteration {iterations[place]}, but {problem}")

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


_RECORDED = ("bytes", "retransmits", "ecn_marks")
"""Counters of a flow that a timeline has, too."""


def _sums(timeline: Timeline) -> Sequence[Sequence[int]]:
    """_RECORDED of each flow, over all bins."""
    sums = np.zeros((len(timeline.flows), len(_RECORDED)), np.int64)
    for at, name in enumerate(_RECORDED):
        np.add.at(sums[:, at], timeline.flow, getattr(timeline, name))
    found: Sequence[Sequence[int]] = sums.tolist()
    return found


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
