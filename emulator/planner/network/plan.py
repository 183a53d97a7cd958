"""What a network would have to carry, and how long that takes at least: loads of links, incast, ideal times.

All loads are payload bytes, each in two ways: with equal-cost paths shared evenly, which is the bound of ideal times,
and with every flow on the one path that a hash of its 5-tuple chooses. Times have the transport's headers in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from emulator.planner.network.fluid_simulation import fluid_ns
from emulator.planner.network.header_overhead import WireOverhead
from emulator.planner.network.incast import Incast, incast_of
from emulator.planner.network.packet_simulation import Sending, queued_ns
from emulator.planner.network.routing import FloatArray, Router, sum_by
from emulator.planner.traffic.operation import Operation, Traffic, check_size
from emulator.planner.traffic.phases import Phase
from emulator.topology.model import Topology
from emulator.topology.paths import Paths
from emulator.trace.model import BoolArray, IntArray
from emulator.units import BITS_PER_BYTE, NS_PER_S

FLOWS_AT_ONCE = 1 << 20
MOST_TRANSFERS = 10**9
LISTED_FLOWS = 1 << 16
"""Flows that are added up one by one; of more only each operation's least and largest are known."""


class Spread(NamedTuple):
    """Bytes of the flows of an operation: how many flows, and the least and largest."""

    flows: int
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class OperationPlan:
    """What one operation does to the network. Times in ns; None if a port or link on the way has no rate.

    Attributes:
        operation: what is played.
        network_bytes, local_bytes: payload between hosts, and within hosts, of all groups once.
        network_bytes_total, local_bytes_total: the same of one iteration, each group as often as it plays.
        flows: of one group, between ranks, those within hosts included.
        incast: most senders to one receiver, and to one port, in a step.
        port_ns: least time by the ports of the hosts alone; of the group where it is largest.
        ideal_ns: the same by every link on the way, equal-cost paths shared evenly.
        hashed_ns: the same with each flow on the path its hash chooses.
        together_ns, together_hashed_ns: as ideal_ns and hashed_ns with all groups at once.
        fair_ns: with steps that wait for each other and links shared fairly, hashed; None for large groups too.
        queued_ns: the same with the transport's windows and the links' queues; None where `queueing` says, too.
        group_ns: float64, shape (groups,): ideal_ns of each group, NaN where unknown.
    """

    operation: Operation
    network_bytes: int
    local_bytes: int
    network_bytes_total: int
    local_bytes_total: int
    flows: Spread
    incast: Incast
    port_ns: int | None
    ideal_ns: int | None
    hashed_ns: int | None
    together_ns: int | None
    together_hashed_ns: int | None
    fair_ns: int | None
    queued_ns: int | None
    group_ns: FloatArray


@dataclass(frozen=True, slots=True)
class Loads:
    """Payload bytes of one iteration on every directed link, shape (directed links,).

    Attributes:
        even: float64, equal-cost paths shared evenly.
        hashed: float64, every flow on one path.
        flows: int64, flows on the link with hashing, those of each operation counted by themselves.
        rate_bps: float64, NaN if not specified.
        is_choice: bool, links that are one of several equal-cost next hops.
    """

    even: FloatArray
    hashed: FloatArray
    flows: IntArray
    rate_bps: FloatArray
    is_choice: BoolArray


class Flow(NamedTuple):
    """What one rank sends another between hosts in an iteration, bytes."""

    sender: int
    receiver: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan of one iteration.

    Attributes:
        topology, paths: what it is made for.
        overhead: of the transport.
        seed: of the hash.
        hash_name: whose choices `hashed` loads are, see FlowHash.
        operations: in the traffic's order.
        loads: of links.
        flows: between hosts, largest first; None if there are more than LISTED_FLOWS.
        jct_ns: least time of an iteration: its compute, and every operation after the other in its ideal time, of the
            rank where that is largest; None without compute times, or where a rate is missing.
        is_observed: paths share `even` loads as observed, not evenly.
    """

    topology: Topology
    paths: Paths
    overhead: WireOverhead
    seed: int
    hash_name: str
    operations: Sequence[OperationPlan]
    loads: Loads
    flows: Sequence[Flow] | None
    jct_ns: int | None
    is_observed: bool = False

    @property
    def network_bytes(self) -> int:
        """Payload between hosts in one iteration."""
        return sum(plan.network_bytes_total for plan in self.operations)

    @property
    def local_bytes(self) -> int:
        """Payload within hosts in one iteration."""
        return sum(plan.local_bytes_total for plan in self.operations)


def make_plan(
    traffic: Traffic, topology: Topology, *, router: Router, overhead: WireOverhead, sending: Sending | None = None
) -> Plan:
    """Lay traffic over a topology.

    Args:
        traffic: of one iteration.
        topology: with a place for every rank.
        router: over the same topology.
        overhead: of the transport.
        sending: how the transport sends; None if the queueing model does not know it.

    Raises:
        PlanError: an unknown algorithm, ranks that no path joins, or more pairs than anybody would wait for.
    """
    check_size(traffic, most=MOST_TRANSFERS)
    planner = _Planner(router, overhead, sending)
    operations = [planner.operation(operation) for operation in traffic.operations]
    return Plan(
        topology,
        router.paths,
        overhead,
        router.seed,
        router.flow_hash.name,
        operations,
        planner.loads(),
        planner.flows(),
        _sequential_ns(traffic, operations),
        is_observed=router.weights is not None,
    )


def instance_ns(traffic: Traffic, plan: Plan) -> IntArray | None:
    """Ideal time of each instance of a trace, ns; None if one is unknown."""
    found = np.array([plan.operations[place.operation].group_ns[place.group] for place in traffic.places])
    return None if np.isnan(found).any() else np.ceil(found - _ROUNDING).astype(np.int64)


_ROUNDING = 1e-6
"""Sums of float64 may lie above a whole number of ns by less than this; that is no further ns."""


class _Batch(NamedTuple):
    """Flows of several groups: the group of each, world ranks, bytes."""

    groups: IntArray
    senders: IntArray
    receivers: IntArray
    sizes: IntArray


class _Planner:
    """Adds up what operations do to the links of one network."""

    def __init__(self, router: Router, overhead: WireOverhead, sending: Sending | None) -> None:
        self._router, self._sending = router, sending
        links = router.paths.network.links
        rates = [link.rate_bps or np.nan for link in links]
        self._rate_bps = np.repeat(np.array(rates, dtype=np.float64), 2)
        self._byte_ns = float(overhead.factor) * BITS_PER_BYTE * NS_PER_S / self._rate_bps
        self._even, self._hashed = np.zeros(2 * len(links)), np.zeros(2 * len(links))
        self._flow_count = np.zeros(2 * len(links), dtype=np.int64)
        self._pairs: list[tuple[IntArray, FloatArray]] | None = []

    def operation(self, operation: Operation) -> OperationPlan:
        work = _OperationLoads(operation, self._router, self._byte_ns)
        parts = [_merged(part, operation.members) for part in operation.totals()]
        for groups in _group_batches(operation, sum(len(part.sizes) for part in parts)):
            for part in parts:
                batch = _batch(operation, groups, part)
                self._count_pairs(operation, work.add(batch))
            work.finish(groups)
        self._even += work.even
        self._hashed += work.hashed
        self._flow_count += work.flow_count
        queued = None
        if self._sending is not None:
            queued = queued_ns(operation, self._router, self._rate_bps, self._sending)
        return work.plan(_spread(parts), incast_of(operation, self._router), queued)

    def loads(self) -> Loads:
        return Loads(self._even, self._hashed, self._flow_count, self._rate_bps, self._router.is_choice)

    def flows(self) -> Sequence[Flow] | None:
        if self._pairs is None:
            return None
        ranks = len(self._router.rank_host)
        keys = np.concatenate([keys for keys, _ in self._pairs]) if self._pairs else np.zeros(0, dtype=np.int64)
        sizes = np.concatenate([sizes for _, sizes in self._pairs]) if self._pairs else np.zeros(0)
        keys, sizes = sum_by(keys, sizes)
        order = np.argsort(-sizes, kind="stable")
        return [Flow(*divmod(int(keys[at]), ranks), int(sizes[at])) for at in order]

    def _count_pairs(self, operation: Operation, batch: _Batch) -> None:
        """Keep the flows of a batch, unless there are too many to be of use."""
        if self._pairs is None:
            return
        keys = batch.senders * len(self._router.rank_host) + batch.receivers
        sizes = batch.sizes * operation.counts[batch.groups].astype(np.float64)
        self._pairs.append((keys, sizes.astype(np.float64)))
        if sum(len(keys) for keys, _ in self._pairs) > LISTED_FLOWS:
            self._pairs = None


class _LinkLoads:
    """Bytes on links: of the groups in work one by one, and of all of them together.

    Attributes:
        total: float64, shape (directed links,), each group as often as it plays.
        once: the same, each group once.
        group_ns: float64, shape (groups,): time of a group's slowest link.
    """

    def __init__(self, operation: Operation, byte_ns: FloatArray) -> None:
        self._counts, self._byte_ns = operation.counts.astype(np.float64), byte_ns
        self._waiting: list[tuple[IntArray, FloatArray]] = []
        self.total, self.once = np.zeros(len(byte_ns)), np.zeros(len(byte_ns))
        self.group_ns = np.zeros(operation.groups)

    def add(self, groups: IntArray, links: IntArray, sizes: FloatArray | IntArray, *, first: int) -> None:
        """Bytes of groups on links; `first` is the first group in work."""
        self._waiting.append(sum_by((groups - first) * len(self._byte_ns) + links, sizes))

    def finish(self, *, first: int) -> None:
        """Close the groups in work."""
        waiting, self._waiting = self._waiting, []
        if not sum(len(keys) for keys, _ in waiting):
            return
        keys, sizes = sum_by(*(np.concatenate(columns) for columns in zip(*waiting, strict=True)))
        groups, links = np.divmod(keys, len(self._byte_ns))
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        groups += first
        self.group_ns[groups[starts]] = np.maximum.reduceat(sizes * self._byte_ns[links], starts)
        self.once += np.bincount(links, sizes, len(self.once))
        self.total += np.bincount(links, sizes * self._counts[groups], len(self.once))


class _OperationLoads:
    """Adds up one operation, batch by batch; the flows of a batch belong to whole groups or to a part of one.

    Links at hosts and links between switches are kept apart: the first carry the same however paths are chosen.
    """

    def __init__(self, operation: Operation, router: Router, byte_ns: FloatArray) -> None:
        self._operation, self._router, self._byte_ns = operation, router, byte_ns
        self._edges, self._even, self._hashed = (_LinkLoads(operation, byte_ns) for _ in range(3))
        self._once, self._total = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
        self.flow_count = np.zeros(len(byte_ns), dtype=np.int64)

    @property
    def even(self) -> FloatArray:
        """Bytes of an iteration with equal-cost paths shared evenly."""
        return self._edges.total + self._even.total

    @property
    def hashed(self) -> FloatArray:
        """Bytes of an iteration with every flow on one path."""
        return self._edges.total + self._hashed.total

    def add(self, batch: _Batch) -> _Batch:
        """Add flows; returns those that leave their host."""
        remote = self._router.remote(batch.senders, batch.receivers)
        self._count_bytes(batch, remote)
        first = int(batch.groups[0]) if len(batch.groups) else 0
        batch = _Batch(*(column[remote] for column in batch))
        ends = batch.senders, batch.receivers
        for loads, crossings in ((self._edges, self._router.edges), (self._hashed, self._router.hashed)):
            for crossing in crossings(*ends):
                loads.add(batch.groups[crossing.flows], crossing.links, batch.sizes[crossing.flows], first=first)
                self.flow_count += np.bincount(crossing.links, minlength=len(self.flow_count))
        for groups, links, sizes in self._router.spread(batch.groups - first, *ends, batch.sizes):
            self._even.add(groups + first, links, sizes, first=first)
        return batch

    def finish(self, groups: range) -> None:
        """Close these groups: all their flows have been added."""
        for loads in (self._edges, self._even, self._hashed):
            loads.finish(first=groups.start)

    def plan(self, flows: Spread, incast: Incast, queued: int | None) -> OperationPlan:
        """The result."""
        even_ns = np.maximum(self._edges.group_ns, self._even.group_ns)
        return OperationPlan(
            operation=self._operation,
            network_bytes=int(self._once[0]),
            local_bytes=int(self._once[1]),
            network_bytes_total=int(self._total[0]),
            local_bytes_total=int(self._total[1]),
            flows=flows,
            incast=incast,
            port_ns=_whole_ns(self._edges.group_ns),
            ideal_ns=_whole_ns(even_ns),
            hashed_ns=_whole_ns(np.maximum(self._edges.group_ns, self._hashed.group_ns)),
            together_ns=self._together_ns(self._edges.once + self._even.once),
            together_hashed_ns=self._together_ns(self._edges.once + self._hashed.once),
            fair_ns=fluid_ns(self._operation, self._router, self._byte_ns),
            queued_ns=queued,
            group_ns=even_ns,
        )

    def _count_bytes(self, batch: _Batch, remote: BoolArray) -> None:
        weighted = batch.sizes * self._operation.counts[batch.groups]
        for sums, sizes in ((self._once, batch.sizes), (self._total, weighted)):
            between = int(sizes[remote].sum())
            sums += between, int(sizes.sum()) - between

    def _together_ns(self, once: FloatArray) -> int | None:
        used = once > 0
        return _whole_ns(once[used] * self._byte_ns[used])


def _group_batches(operation: Operation, transfers: int) -> Iterator[range]:
    """Groups that are worked on together: as many as have some million flows."""
    step = max(1, FLOWS_AT_ONCE // max(1, transfers))
    for first in range(0, operation.groups, step):
        yield range(first, min(first + step, operation.groups))


def _batch(operation: Operation, groups: range, part: Phase) -> _Batch:
    ranks = operation.ranks[groups.start : groups.stop]
    numbers = np.arange(groups.start, groups.stop, dtype=np.int64)
    return _Batch(
        np.repeat(numbers, len(part.sizes)),
        ranks[:, part.senders].ravel(),
        ranks[:, part.receivers].ravel(),
        np.tile(part.sizes, len(groups)),
    )


def _merged(part: Phase, members: int) -> Phase:
    """Every pair once."""
    keys, sizes = sum_by(part.senders * members + part.receivers, part.sizes)
    senders, receivers = np.divmod(keys, members)
    return Phase(senders, receivers, np.rint(sizes).astype(np.int64), part.steps)


def _spread(parts: Sequence[Phase]) -> Spread:
    filled = [part.sizes for part in parts if len(part.sizes)]
    if not filled:
        return Spread(0, 0, 0)
    least, most = min(int(sizes.min()) for sizes in filled), max(int(sizes.max()) for sizes in filled)
    return Spread(sum(map(len, filled)), least, most)


def _whole_ns(times: FloatArray) -> int | None:
    longest = float(times.max()) if len(times) else 0.0
    return None if np.isnan(longest) else int(np.ceil(longest - _ROUNDING))


def _sequential_ns(traffic: Traffic, operations: Sequence[OperationPlan]) -> int | None:
    """Compute and operations one after the other, of the class of ranks where that takes longest."""
    if not traffic.compute_ns:
        return None
    longest = 0
    for compute_ns, taken in zip(traffic.compute_ns, traffic.members, strict=True):
        total = compute_ns
        for number, count in taken.items():
            ideal_ns = operations[number].ideal_ns
            if ideal_ns is None:
                return None
            total += count * ideal_ns
        longest = max(longest, total)
    return longest
