"""Median time and message depth of each class of collectives in a run, sorted by the links that its groups cross."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa

from emulator.annexes.exports.astra_sim_fit import Observation
from emulator.errors import PlanError
from emulator.planner.algorithms import schedule
from emulator.planner.built_in import BY_LAYOUT
from emulator.planner.schedule import Collective, Step
from emulator.planner.traffic.operation import peer_totals
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.method.descriptive import median
from emulator.results.statistics.samples.classes import ClassKey, class_rows
from emulator.results.statistics.samples.collectives import MERGE_COLUMNS, MergedSamples, merge
from emulator.results.statistics.samples.measured_rows import read_measured, to_ints
from emulator.trace.meaning.model import CommKind, IntArray


def message_depth(algorithm: str, members: Sequence[Collective]) -> int:
    """Length of the longest chain of transfers in which each waits for the previous one.

    Examples: 2(n - 1) for a ring all-reduce of n members, 1 per phase for direct, the height of a tree.

    Args:
        members: the collective as each member sees it, in group order.

    Raises:
        PlanError: the collective has no such algorithm, or a receive of the algorithm has no matching send.
    """
    plays = [
        _LanePlay(member=number, lane=lane, steps=list(steps))
        for number, view in enumerate(members)
        for lane, steps in enumerate(schedule(algorithm, view))
    ]
    arrivals: _Arrivals = defaultdict(deque)
    waiting = plays
    while waiting:
        left = [play for play in waiting if not play.advance(arrivals)]
        if len(left) == len(waiting) and not any(play.moved for play in waiting):
            raise PlanError(f"{algorithm} waits for transfers that no member sends")
        waiting = left
    return max((play.depth for play in plays), default=0)


_Arrivals = defaultdict[tuple[int, int, int], deque[int]]
"""(sender, receiver, lane) → depths of the transfers on their way, in order."""


class _LanePlay:
    """A lane of one member; `depth` transfers followed one another up to its current step."""

    def __init__(self, *, member: int, lane: int, steps: Sequence[Step]) -> None:
        self._member, self._lane, self._steps = member, lane, steps
        self._next = 0
        self._is_sent = False
        self.depth = 0
        self.moved = False

    def advance(self, arrivals: _Arrivals) -> bool:
        """Advance as far as transfers have arrived; whether the lane is complete."""
        self.moved = False
        while self._next < len(self._steps):
            step = self._steps[self._next]
            self._send(step, arrivals)
            if not self._receive(step, arrivals):
                return False
            self._next, self._is_sent, self.moved = self._next + 1, False, True
        return True

    def _send(self, step: Step, arrivals: _Arrivals) -> None:
        if not self._is_sent:
            for transfer in step.sends:
                arrivals[self._member, transfer.peer, self._lane].append(self.depth + 1)
            self._is_sent = self.moved = True

    def _receive(self, step: Step, arrivals: _Arrivals) -> bool:
        sources = [(transfer.peer, self._member, self._lane) for transfer in step.recvs]
        if any(len(arrivals[source]) < sources.count(source) for source in set(sources)):
            return False
        self.depth = max([self.depth, *(arrivals[source].popleft() for source in sources)])
        return True


_LARGEST_GROUP = 512
"""Larger groups get no observation: following the chains of messages takes too long (512 in a ring: 500,000 steps)."""


class LinkClass(Enum):
    """The links that the messages of a group cross.

    The ranks of one host share its port. A fit to MIXED groups therefore gives the rate that each of them sees.
    """

    WITHIN_HOST = "within a host"
    BETWEEN_HOSTS = "between hosts"
    MIXED = "between hosts, several ranks a host"


@dataclass(frozen=True, slots=True)
class Observed:
    """The observations of a run by link class; `left_out`: reason → number of classes without an observation."""

    by_link: Mapping[LinkClass, Sequence[Observation]]
    left_out: Mapping[str, int]


def observe(run: Run) -> Observed:
    """Sort the classes of a run.

    Raises:
        ResultError: the samples are missing or damaged.
    """
    samples = read_measured(run, RunTable.SAMPLES, MERGE_COLUMNS)
    merged = merge(samples, until=run.manifest.cct_until)
    links = _links(samples, run.manifest.topology.get("host_index") or [])
    found: dict[LinkClass, list[Observation]] = {link: [] for link in LinkClass}
    left_out: dict[str, int] = {}
    for key, link, rows in _by_link(merged, links):
        made = _observation(key, merged, rows)
        if isinstance(made, Observation):
            found[link].append(made)
        else:
            left_out[made] = left_out.get(made, 0) + 1
    return Observed({link: made for link, made in found.items() if made}, left_out)


def _links(samples: pa.Table, host_index: Sequence[int]) -> Mapping[int, LinkClass]:
    """Instance → the links that its messages cross."""
    rank, instance = to_ints(samples["rank"]), to_ints(samples["instance"])
    hosts = np.asarray(host_index, np.int64) if len(host_index) else np.zeros(int(rank.max(initial=0)) + 1, np.int64)
    members = np.unique(np.stack([instance, rank], axis=1), axis=0)
    pairs = np.unique(np.stack([members[:, 0], hosts[members[:, 1]]], axis=1), axis=0)
    instances, ranks = np.unique(members[:, 0], return_counts=True)
    _, distinct = np.unique(pairs[:, 0], return_counts=True)
    return {
        one: LinkClass.WITHIN_HOST
        if hosts_of == 1
        else LinkClass.BETWEEN_HOSTS
        if hosts_of == ranks_of
        else LinkClass.MIXED
        for one, ranks_of, hosts_of in zip(instances.tolist(), ranks.tolist(), distinct.tolist(), strict=True)
    }


def _by_link(merged: MergedSamples, links: Mapping[int, LinkClass]) -> Iterator[tuple[ClassKey, LinkClass, IntArray]]:
    """(class, link, rows) of each class on each class of links."""
    for key, rows in class_rows(merged):
        crossed = [links[instance] for instance in merged.instance[rows].tolist()]
        for link in LinkClass:
            own = rows[[one is link for one in crossed]]
            if len(own):
                yield key, link, own


def _observation(key: ClassKey, merged: MergedSamples, rows: IntArray) -> Observation | str:
    """An observation, or the reason why there is none."""
    kind, size_bytes = CommKind(int(merged.kind[rows[0]])), int(merged.size_bytes[rows[0]])
    if kind.is_storage:
        return "with a storage host, which ASTRA-sim's collectives do not use"
    valid = rows[(merged.cct_ns[rows] > 0) & ~merged.early[rows]]
    cct_ns = median(merged.cct_ns[valid])
    if key.members < 2 or not key.size_bytes or cct_ns is None:
        return "without a time (groups of one, size 0, or payload before the post)"
    if key.members > _LARGEST_GROUP:
        return f"of more than {_LARGEST_GROUP} ranks"
    if key.algorithm in BY_LAYOUT:
        return f"played with {key.algorithm}, whose bytes differ within hosts and between them; ASTRA-sim's do not"
    try:
        messages, port_bytes = _cost(kind, key.members, size_bytes, key.algorithm)
    except PlanError:
        return f"played with {key.algorithm}, which is not installed here"
    ideal_ns = int(merged.whole_ideal_ns[rows].max())
    names = (kind, key.members, size_bytes, key.algorithm)
    return Observation(
        str(key), messages, port_bytes, int(cct_ns), len(valid), *names, ideal_ns=ideal_ns if ideal_ns > 0 else None
    )


def _cost(kind: CommKind, members: int, size: int, algorithm: str) -> tuple[int, int]:
    """(messages one after another, bytes on the busiest port)."""
    if kind is CommKind.SEND:
        return 1, size
    views = [Collective(kind, members, member, size) for member in range(members)]
    phase = peer_totals(algorithm, views[0])
    sent, received = (np.bincount(ends, phase.sizes, members) for ends in (phase.senders, phase.receivers))
    return message_depth(algorithm, views), int(max(sent.max(), received.max()))
