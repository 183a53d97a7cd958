"""What a plan is made for: operations of equal shape, performed by many groups, with ranks as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from emulator.errors import PlanError
from emulator.planner.algorithms import choose, depends_on_layout
from emulator.planner.group_layout import GroupLayout, Layouts
from emulator.planner.schedule import Collective
from emulator.planner.traffic.phase import Phase
from emulator.planner.traffic.phases import peer_totals, phases, transfers_per_group
from emulator.trace.meaning.model import CommKind, IntArray
from emulator.trace.synthetic.collective_loop import CollectiveLoop

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

    def totals(self) -> Iterator[Phase]:
        """Transfers of a group in member numbers, all phases together; in several parts if there are many."""
        if self.splits is not None or not self.kind.is_collective:
            yield from self.phases()
            return
        parts = -(-self.transfers // TRANSFERS_AT_ONCE)
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
        size = CollectiveLoop(kind=kind, ranks=count, size_bytes=size_bytes).comm_size
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
