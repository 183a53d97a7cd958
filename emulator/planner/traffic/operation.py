"""Operations of equal shape, performed by many groups, and the bytes that they move, with ranks as arrays.

`schedule` describes what one member does step by step. Plans of large worlds cannot walk every schedule, so the same
traffic is computed here as arrays over all members. Algorithms without a closed form are walked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from emulator.errors import PlanError
from emulator.planner.algorithms import canonical_kind, choose, depends_on_layout, schedule
from emulator.planner.group_layout import GroupLayout, Layouts
from emulator.planner.schedule import Collective
from emulator.planner.traffic.closed_forms import Phases, closed_form_of, full_exchange_of
from emulator.planner.traffic.phase import FullExchange, Phase
from emulator.trace.meaning.model import BoolArray, CommKind, IntArray
from emulator.trace.synthetic.sweep import comm_size_of

_ROOTED = (CommKind.BROADCAST, CommKind.REDUCE, CommKind.GATHER, CommKind.SCATTER)


def phases(name: str, collective: Collective, senders: IntArray | None = None) -> Phases:
    """The traffic of a group, phase by phase, in the order of the algorithm; lanes run side by side.

    Args:
        collective: as any member sees it; its member number is not used. Not for uneven splits.
        senders: members whose sends are returned; None: all.

    Raises:
        PlanError: there is no such algorithm.
    """
    if senders is None:
        senders = np.arange(collective.members, dtype=np.int64)
    schedule(name, collective)  # raises if there is no such algorithm
    if collective.members == 1 or (collective.size_bytes == 0 and collective.kind is not CommKind.BARRIER):
        return
    closed_form = closed_form_of(canonical_kind(collective.kind), name)
    for phase in closed_form(collective, senders) if closed_form else _walked(name, collective, senders):
        kept = phase.sizes > 0
        if kept.any():
            yield phase if kept.all() else _only(phase, kept)


def peer_totals(name: str, collective: Collective, senders: IntArray | None = None) -> Phase:
    """All traffic as one phase; a pair can occur several times. Arguments and errors as for `phases`."""
    if name == "pairwise" and canonical_kind(collective.kind) is CommKind.ALL_TO_ALL:
        name = "parallel"  # the same pairs and bytes, without a phase for every distance
    found = list(phases(name, collective, senders))
    if not found:
        nothing = np.zeros(0, dtype=np.int64)
        return Phase(nothing, nothing, nothing, 0)
    return Phase(
        np.concatenate([phase.senders for phase in found]),
        np.concatenate([phase.receivers for phase in found]),
        np.concatenate([phase.sizes for phase in found]),
        sum(phase.steps for phase in found),
    )


def transfers_per_group(name: str, kind: CommKind, members: int) -> int:
    """Estimate of the transfers in `peer_totals`: n(n - 1) if all members exchange, else a few per member."""
    is_full_exchange = name in ("direct", "parallel", "pairwise", "pxn") and canonical_kind(kind) not in _ROOTED
    return members * (members - 1) if is_full_exchange else members * 2 * members.bit_length()


def _only(phase: Phase, kept: BoolArray) -> Phase:
    return Phase(phase.senders[kept], phase.receivers[kept], phase.sizes[kept], phase.steps)


def _walked(name: str, collective: Collective, senders: IntArray) -> Phases:
    """A phase for every step of the schedules."""
    steps: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for sender in senders.tolist():
        for lane in schedule(name, replace(collective, member=sender)):
            for number, step in enumerate(lane):
                steps[number] += [(sender, transfer.peer, transfer.size) for transfer in step.sends]
    for _, transfers in sorted(steps.items()):
        if transfers:
            yield Phase.of(transfers)


TRANSFERS_AT_ONCE = 1 << 21
"""Transfers that are processed together; they take some tens of megabytes."""


@dataclass(frozen=True, slots=True)
class Operation:
    """Communications of one shape: equal kind, size, algorithm and group size, in g groups of n ranks.

    Attributes:
        role: what the operation is for; "" if not specified.
        kind: a collective, or SEND for pairs of sender and receiver.
        size_bytes: Chakra's comm_size.
        ranks: int64, shape (g, n), world ranks in group order; for SEND (sender, receiver).
        counts: int64, shape (g,), how often each group performs it.
        splits: for an uneven all-to-all: all its transfers; g is then 1.
        layout: of all these groups, if the algorithm depends on it.
    """

    role: str
    kind: CommKind
    algorithm: str
    size_bytes: int
    ranks: IntArray
    counts: IntArray
    root: int = 0
    splits: Phase | None = None
    layout: GroupLayout | None = None

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.ranks)

    @property
    def members(self) -> int:
        """Number of ranks in a group."""
        return int(self.ranks.shape[1])

    @property
    def transfers(self) -> int:
        """Estimate of the transfers of one group."""
        if self.splits is not None:
            return len(self.splits.sizes)
        return transfers_per_group(self.algorithm, self.kind, self.members) if self.kind.is_collective else 1

    def totals(self, *, at_once: int = TRANSFERS_AT_ONCE) -> Iterator[Phase]:
        """Transfers of a group in member numbers, all phases together; in several parts if there are many."""
        if self.splits is not None or not self.kind.is_collective:
            yield from self.phases()
            return
        parts = -(-self.transfers // at_once)
        senders = np.arange(self.members, dtype=np.int64)
        for some in np.array_split(senders, min(parts, self.members)) if parts > 1 else (None,):
            yield peer_totals(self.algorithm, self._collective, some)

    def phases(self) -> Iterator[Phase]:
        """Transfers of a group in member numbers, phase by phase."""
        if self.splits is not None:
            yield self.splits
        elif self.kind.is_collective:
            yield from phases(self.algorithm, self._collective)
        elif self.size_bytes:
            sender, receiver, size = (np.array([value], dtype=np.int64) for value in (0, 1, self.size_bytes))
            yield Phase(sender, receiver, size)

    @property
    def exchange(self) -> FullExchange | None:
        """All transfers of a group, if each member sends at least a byte to every other."""
        if self.splits is not None or not self.kind.is_collective or self.members == 1:
            return None
        found = full_exchange_of(self.algorithm, self._collective)
        return found if found is not None and found.least > 0 else None

    @property
    def _collective(self) -> Collective:
        return Collective(self.kind, self.members, 0, self.size_bytes, self.root, layout=self.layout)


class TrafficPlace(NamedTuple):
    """Where an instance of a trace is in its traffic: number of the operation, and of the group in it."""

    operation: int
    group: int


@dataclass(frozen=True, slots=True)
class Traffic:
    """All communication of one iteration.

    Attributes:
        operations: what is communicated.
        compute_ns: per class of ranks that do the same: compute time of one rank, ns.
        members: per class of ranks: operation number → how often one rank takes part.
        places: for a trace: the place of each instance.
    """

    ranks: int
    operations: Sequence[Operation]
    compute_ns: Sequence[int] = ()
    members: Sequence[Mapping[int, int]] = ()
    places: Sequence[TrafficPlace] = ()

    @property
    def transfers(self) -> int:
        """Estimate of all transfers, over all groups."""
        return sum(operation.transfers * operation.groups for operation in self.operations)


def traffic_of_collective(
    kind: CommKind,
    *,
    ranks: int,
    size_bytes: int,
    group_size: int,
    overrides: Mapping[str, str],
    layouts: Layouts | None = None,
) -> Traffic:
    """One collective in groups of consecutive ranks; the last group is smaller if the ranks do not divide evenly.

    Args:
        size_bytes: size for one group, as nccl-tests counts it.

    Raises:
        PlanError: the size does not divide evenly among the ranks of a group.
    """
    groups = np.arange(ranks // group_size * group_size, dtype=np.int64).reshape(-1, group_size)
    rest = np.arange(groups.size, ranks, dtype=np.int64).reshape(1, -1)
    operations = []
    for members in (each for each in (groups, rest) if each.size):
        count = members.shape[1]
        size = comm_size_of(kind, ranks=count, size_bytes=size_bytes)
        for name, layout, chosen in by_algorithm(members, kind, size, overrides, layouts or Layouts()):
            once = np.ones(len(chosen), dtype=np.int64)
            operations.append(Operation("", kind, name, size, members[chosen], once, layout=layout))
    return Traffic(ranks, operations)


def by_algorithm(
    ranks: IntArray, kind: CommKind, size_bytes: int, overrides: Mapping[str, str], layouts: Layouts
) -> Sequence[tuple[str, GroupLayout | None, list[int]]]:
    """Groups that play alike: (algorithm, layout if it depends on that, rows of `ranks`).

    Raises:
        PlanError: as `choose`.
    """
    found: dict[tuple[str, GroupLayout | None], list[int]] = {}
    for row, group in enumerate(ranks.tolist()):
        domains = layouts.in_domains(group)
        name = choose(kind, members=len(group), size_bytes=size_bytes, overrides=overrides, layout=domains)
        layout = layouts.of(group) if depends_on_layout(kind, name) else None
        found.setdefault((name, layout), []).append(row)
    return [(name, layout, rows) for (name, layout), rows in found.items()]


def check_size(traffic: Traffic, *, most: int) -> None:
    """Refuse plans that would take too long.

    Raises:
        PlanError: there are more than `most` transfers.
    """
    if traffic.transfers > most:
        raise PlanError(
            f"this plan has about {traffic.transfers:.1e} pairs of communicating ranks; at most {most:.0e} are "
            "supported: use smaller groups, or an algorithm with fewer peers (ring, halving_doubling)"
        )


@dataclass(frozen=True, slots=True)
class PairBytes:
    """Directed pairs of ranks with traffic in one iteration: int64, shape (pairs,); bytes are payload."""

    src: IntArray
    dst: IntArray
    bytes: IntArray

    def of_rank(self, rank: int | None) -> PairBytes:
        """The pairs that a rank is one of; None: all."""
        if rank is None:
            return self
        chosen = (self.src == rank) | (self.dst == rank)
        return PairBytes(self.src[chosen], self.dst[chosen], self.bytes[chosen])


def pair_bytes(traffic: Traffic) -> PairBytes:
    """The sum over all operations, pair by pair."""
    keys, sizes = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for operation in traffic.operations:
        for phase in operation.totals():
            senders, receivers = operation.ranks[:, phase.senders], operation.ranks[:, phase.receivers]
            keys.append((senders * traffic.ranks + receivers).ravel())
            sizes.append((operation.counts[:, None] * phase.sizes[None, :]).ravel())
    pairs, place = np.unique(np.concatenate(keys), return_inverse=True)
    total = np.zeros(len(pairs), dtype=np.int64)
    np.add.at(total, place, np.concatenate(sizes))
    return PairBytes(pairs // traffic.ranks, pairs % traffic.ranks, total)


def busiest_bytes(traffic: Traffic) -> IntArray:
    """Bytes that the busiest member sends or receives: int64, shape (instances,); `traffic` is that of a workload."""
    of_operation = np.array([_busiest(operation) for operation in traffic.operations], dtype=np.int64)
    return of_operation[[place.operation for place in traffic.places]] if len(of_operation) else of_operation


def _busiest(operation: Operation) -> int:
    sent, received = (np.zeros(operation.members, dtype=np.int64) for _ in range(2))
    for phase in operation.totals():
        np.add.at(sent, phase.senders, phase.sizes)
        np.add.at(received, phase.receivers, phase.sizes)
    return int(max(sent.max(initial=0), received.max(initial=0)))
