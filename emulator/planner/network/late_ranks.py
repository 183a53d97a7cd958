"""Ideal times of what a collective had still to move when its last member posted.

Payload flows only between members that have posted, and a step waits for what it receives. Until the last post, a port
can have passed at most what those who were there could send, at its rate, with nothing else taking time. What that
leaves takes the ideal time after the last post: like that of all bytes, no measurement can be faster.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from emulator.planner.network.arrays import FloatArray
from emulator.planner.network.fluid_simulation import LaneProgress, lanes_of
from emulator.planner.network.header_overhead import WireOverhead
from emulator.planner.network.ideal_times import GroupPlaces
from emulator.planner.traffic.operation import Operation, Traffic
from emulator.planner.traffic.phase import Phase
from emulator.topology.model import Topology
from emulator.trace.meaning.model import CommKind, IntArray
from emulator.units import BITS_PER_BYTE, NS_PER_S

MOST_TRANSFERS = 2048
"""Transfers of a group that are followed step by step, at most; that many take some 70 ms, once per order of posts. In
larger groups, all members that have posted are taken to exchange everything at once, which is more than they can."""
MOST_FOLLOWED = 60_000
"""Transfers that are followed for one run, at most: some 2 s."""
_ALIKE_KINDS = (
    CommKind.ALL_REDUCE,
    CommKind.ALL_GATHER,
    CommKind.REDUCE_SCATTER,
    CommKind.REDUCE_SCATTER_BLOCK,
    CommKind.ALL_TO_ALL,
)
_ALIKE = ("ring", "bidirectional_ring", "halving_doubling", "direct", "pairwise", "parallel")
"""Of these kinds and algorithms, all members send and receive as much."""
_ENOUGH = 0.99
"""Share of the ideal of all bytes: a bound above it is taken, even if steps were not followed."""
_ROUNDING_NS = 1e-6


class LateRanks:
    """The remaining ideal times of one operation, whose members posted at different times.

    Args:
        operation: of a workload on this topology.
        topology: with all ranks placed.
        overhead: headers of the transport.
        most_transfers: of a group whose steps are followed.
    """

    def __init__(
        self,
        operation: Operation,
        topology: Topology,
        overhead: WireOverhead,
        *,
        most_transfers: int = MOST_TRANSFERS,
    ) -> None:
        self._operation, self._topology, self._overhead = operation, topology, overhead
        self._is_followed = operation.transfers <= most_transfers
        self._moves: dict[tuple[int, ...], Sequence[tuple[int, Phase]]] = {}
        self._work: dict[tuple[GroupPlaces, tuple[int, ...]], FloatArray] = {}

    def remaining_ns(self, group: int, post_ns: Sequence[int], free_ns: Sequence[int] | None = None) -> int | None:
        """Time that the ports need at least, from the last post on, rounded up.

        Args:
            group: number of the group in the operation.
            post_ns: of its members, in group order.
            free_ns: when each was done with the collective before: until then that occupied its port. None: long ago.

        Returns:
            None if a port that is needed has no rate, or the group is too large to tell.

        Raises:
            PlanError: there is no such algorithm.
        """
        order = tuple(np.argsort(np.asarray(post_ns), kind="stable").tolist())
        places = GroupPlaces.of(self._operation.ranks[group].tolist(), self._topology)
        work = self._work_of(places, order)
        since_ns = np.full(work.shape[1], post_ns[order[0]], np.int64)
        if free_ns is not None:
            since_ns = np.maximum(since_ns, _at_ports(places, free_ns))
        left = np.zeros(work.shape[1])
        for member, released in zip(order, work, strict=True):
            left = np.maximum(left - np.maximum(post_ns[member] - since_ns, 0), 0.0) + released
            since_ns = np.maximum(since_ns, post_ns[member])
        longest, whole = float(left.max(initial=0.0)), float(work.sum(axis=0).max(initial=0.0))
        if math.isnan(whole) or not (self._is_followed or longest >= _ENOUGH * whole):
            return None
        return math.ceil(longest - _ROUNDING_NS)

    def _work_of(self, places: GroupPlaces, order: tuple[int, ...]) -> FloatArray:
        """ns that each port needs for what can be sent from the k-th post on and not before: shape (members, ports)."""
        if (places, order) not in self._work:
            if order not in self._moves:
                self._moves[order] = list(self._released(order))
            self._work[places, order] = _port_times(self._moves[order], places, self._overhead)
        return self._work[places, order]

    def _released(self, order: Sequence[int]) -> Iterator[tuple[int, Phase]]:
        """(k, transfers that can begin at the k-th post), in member numbers."""
        if self._is_followed:
            playout = _Playout(self._operation)
            for number, member in enumerate(order):
                yield number, playout.post(member)
            return
        place = np.empty(len(order), np.int64)
        place[list(order)] = np.arange(len(order))
        for phase in self._operation.totals():
            later = np.maximum(place[phase.senders], place[phase.receivers])
            for number in np.unique(later).tolist():
                chosen = later == number
                yield number, Phase(phase.senders[chosen], phase.receivers[chosen], phase.sizes[chosen])


class RemainingTimes:
    """What each collective of a workload has still to move, for posts that a caller works out.

    Args:
        traffic: of the workload.
        ideal_ns: of all bytes, by instance.
        most_followed: transfers, of all collectives together.
    """

    def __init__(
        self,
        traffic: Traffic,
        topology: Topology,
        overhead: WireOverhead,
        ideal_ns: IntArray,
        *,
        most_followed: int = MOST_FOLLOWED,
    ) -> None:
        self._traffic, self._topology, self._overhead, self._ideal_ns = traffic, topology, overhead, ideal_ns
        self._late_ranks: dict[int, LateRanks] = {}
        self._left = most_followed
        shares = [
            operation.kind.is_collective
            and any(self._can_shrink(operation, ranks) for ranks in operation.ranks.tolist())
            for operation in traffic.operations
        ]
        self.instances = frozenset(
            instance
            for instance, place in enumerate(traffic.places)
            if shares[place.operation] and ideal_ns[instance] > 0
        )
        """Those of which less can be left than all: the others need all of the late rank's port."""

    def remaining_ns(self, instance: int, post_ns: Mapping[int, int]) -> int:
        """Time from the last post on. A lower bound, where it would take too long to work it out.

        Args:
            post_ns: of each member, by rank.
        """
        whole, skew_ns = int(self._ideal_ns[instance]), max(post_ns.values()) - min(post_ns.values())
        if not skew_ns:
            return whole
        place = self._traffic.places[instance]
        operation = self._traffic.operations[place.operation]
        found = None
        if operation.transfers <= self._left:
            self._left -= operation.transfers
            if place.operation not in self._late_ranks:
                self._late_ranks[place.operation] = LateRanks(operation, self._topology, self._overhead)
            posts = [post_ns[rank] for rank in operation.ranks[place.group].tolist()]
            found = self._late_ranks[place.operation].remaining_ns(place.group, posts)
        return max(0, whole - skew_ns) if found is None else found

    def _can_shrink(self, operation: Operation, ranks: Sequence[int]) -> bool:
        """Whether a port can be done with its part earlier than that of the late rank."""
        ports = {self._topology.port_of(rank) for rank in ranks}
        is_alike = operation.kind in _ALIKE_KINDS and operation.algorithm in _ALIKE and operation.splits is None
        return not is_alike or len(ports) < len(ranks)


class _Playout:
    """What members that have posted exchange if nothing takes time."""

    def __init__(self, operation: Operation) -> None:
        self._lanes = [list(map(LaneProgress, lanes_of(operation, member))) for member in range(operation.members)]
        self._posted: set[int] = set()
        self._held: defaultdict[int, list[tuple[int, int, int, int]]] = defaultdict(list)  # receiver -> its transfers

    def post(self, member: int) -> Phase:
        """The transfers that become possible when a member posts."""
        self._posted.add(member)
        begun = deque(self._held.pop(member, ()))
        for lane in range(len(self._lanes[member])):
            begun.extend(self._advance(member, lane))
        moved: list[tuple[int, int, int]] = []
        while begun:
            sender, receiver, lane, size = begun.popleft()
            moved.append((sender, receiver, size))
            if self._lanes[receiver][lane].receive(sender):
                begun.extend(self._advance(receiver, lane))
        senders, receivers, sizes = np.array(moved, np.int64).reshape(-1, 3).T
        return Phase(senders, receivers, sizes)

    def _advance(self, member: int, number: int) -> Iterator[tuple[int, int, int, int]]:
        """Sends of the steps that a member can begin; those to members that have not posted are held back."""
        lane = self._lanes[member][number]
        for step in lane.steps:
            for peer, _, size in step.sends:
                transfer = member, peer, number, size
                if peer in self._posted:
                    yield transfer
                else:
                    self._held[peer].append(transfer)
            if lane.await_transfers(transfer.peer for transfer in step.recvs):
                return


def _port_times(released: Sequence[tuple[int, Phase]], places: GroupPlaces, overhead: WireOverhead) -> FloatArray:
    """Shape (members, ports): out of hosts' ports, into them, out of members' ports into a domain, into those; ns."""
    host, port, members = np.array(places.hosts), np.array(places.ports), len(places.hosts)
    rate_of = dict(zip(places.ports, places.rates_bps, strict=True))
    port_ns = _byte_ns([rate_of[number] for number in range(len(rate_of))], float(overhead.factor))
    in_domain = np.array([domain is not None for domain in places.domains])
    domain_ns = _byte_ns([None if domain is None else domain.rate_bps for domain in places.domains], 1.0)
    out_of, into = np.zeros((members, len(port_ns))), np.zeros((members, len(port_ns)))
    to_domain, from_domain = np.zeros((members, members)), np.zeros((members, members))
    for number, phase in released:
        leaves = host[phase.senders] != host[phase.receivers]
        inside = in_domain[phase.senders] & ~leaves
        for work, ends, chosen, byte_ns, place in (
            (out_of, phase.senders, leaves, port_ns, port),
            (into, phase.receivers, leaves, port_ns, port),
            (to_domain, phase.senders, inside, domain_ns, np.arange(members)),
            (from_domain, phase.receivers, inside, domain_ns, np.arange(members)),
        ):
            at = place[ends[chosen]]
            np.add.at(work[number], at, phase.sizes[chosen] * byte_ns[at])
    return np.hstack([out_of, into, to_domain, from_domain])


def _at_ports(places: GroupPlaces, free_ns: Sequence[int]) -> IntArray:
    """The latest of the members at each port, ports as of `_port_times`."""
    ports = np.full(max(places.ports) + 1, min(free_ns), np.int64)
    np.maximum.at(ports, np.array(places.ports), np.array(free_ns, np.int64))
    return np.concatenate([ports, ports, free_ns, free_ns])


def _byte_ns(rates_bps: Sequence[int | None], factor: float) -> FloatArray:
    """Time of a payload byte; NaN without a rate, which spreads to whatever needs it."""
    return np.array([np.nan if rate is None else factor * BITS_PER_BYTE * NS_PER_S / rate for rate in rates_bps])
