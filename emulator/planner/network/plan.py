"""A plan: the load of every link, incast, and the least time of every operation. No traffic is sent.

Loads are payload bytes, in two variants: with equal-cost paths shared evenly, which bounds the ideal times, and with
every flow on the one path that a hash of its 5-tuple chooses. Times include the headers of the transport.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from emulator.planner.network.arrays import FloatArray, sum_by
from emulator.planner.network.fluid_simulation import fluid_ns
from emulator.planner.network.header_overhead import WireOverhead
from emulator.planner.network.link_loads import (
    FLOWS_AT_ONCE,
    FlowBatch,
    Incast,
    OperationLoads,
    batch_of,
    flow_batches,
    incast_of,
    longest_ns,
    round_up_ns,
)
from emulator.planner.network.routing import Router
from emulator.planner.traffic.operation import Operation, Traffic, check_size
from emulator.planner.traffic.phase import FullExchange, Phase
from emulator.topology.model import Topology
from emulator.topology.paths import Paths
from emulator.trace.meaning.model import BoolArray, IntArray
from emulator.units import BITS_PER_BYTE, NS_PER_S

MOST_TRANSFERS = 10**9
LISTED_FLOWS = 1 << 16
"""Flows that are listed, at most; of more flows, only the smallest and largest of each operation are known."""


class FlowSpread(NamedTuple):
    """Flows of an operation: how many, and the bytes of the smallest and the largest."""

    flows: int
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class OperationPlan:
    """The load and the least times of one operation. Times in ns; None if a port or link on the way has no rate.

    Attributes:
        network_bytes, local_bytes, domain_bytes: payload of an iteration between hosts, within hosts, and of the latter
            through scale-up domains.
        flows: flows between ranks of one group, including those within hosts.
        incast: most senders to one rank, and through one port, in a step.
        domain_ns: least time by the domains alone, of the slowest group.
        port_ns: least time by the ports of the hosts and by domains.
        ideal_ns: the same by all links on the way, with equal-cost paths shared evenly.
        hashed_ns: the same with each flow on the path that its hash chooses.
        together_ns, together_hashed_ns: as ideal_ns and hashed_ns, with all groups at once.
        fair_ns: simulated time with flows as fluids, on hashed paths; None for large groups and sprayed flows too.
        group_ns: float64, shape (groups,): ideal_ns of each group, NaN if unknown.
    """

    operation: Operation
    network_bytes: int
    local_bytes: int
    domain_bytes: int
    flows: FlowSpread
    incast: Incast
    domain_ns: int | None
    port_ns: int | None
    ideal_ns: int | None
    hashed_ns: int | None
    together_ns: int | None
    together_hashed_ns: int | None
    fair_ns: int | None
    group_ns: FloatArray


@dataclass(frozen=True, slots=True)
class Loads:
    """Payload bytes of one iteration on every directed link, shape (directed links,).

    Attributes:
        even: float64, with equal-cost paths shared evenly.
        hashed: float64, with every flow on one path.
        flows: int64, number of flows with hashing; flows of different operations count separately.
        rate_bps: float64, NaN if not specified.
        is_choice: bool, whether the link is one of several equal-cost next hops.
    """

    even: FloatArray
    hashed: FloatArray
    flows: IntArray
    rate_bps: FloatArray
    is_choice: BoolArray


class RankFlow(NamedTuple):
    """Bytes from one rank to another on a different host, in one iteration."""

    sender: int
    receiver: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan of one iteration.

    Attributes:
        hash_name: name of the flow hash, see FlowHash.
        operations: in the order of the traffic.
        flows: flows between hosts, largest first; None if there are more than LISTED_FLOWS.
        jct_ns: least time of an iteration in which compute and operations take place one after the other, of the rank
            where that is longest; None without compute times, or if a rate is missing.
        entropy_values: over which every flow is sprayed; 0: each takes one path.
        is_observed: equal-cost paths share the `even` loads in observed, not in equal shares.
    """

    topology: Topology
    paths: Paths
    overhead: WireOverhead
    seed: int
    hash_name: str
    operations: Sequence[OperationPlan]
    loads: Loads
    flows: Sequence[RankFlow] | None
    jct_ns: int | None
    is_observed: bool = False
    entropy_values: int = 0

    @property
    def network_bytes(self) -> int:
        """Payload between hosts in one iteration."""
        return sum(plan.network_bytes for plan in self.operations)

    @property
    def local_bytes(self) -> int:
        """Payload within hosts in one iteration."""
        return sum(plan.local_bytes for plan in self.operations)

    @property
    def domain_bytes(self) -> int:
        """Of that, payload through scale-up domains."""
        return sum(plan.domain_bytes for plan in self.operations)


def make_plan(traffic: Traffic, topology: Topology, *, router: Router, overhead: WireOverhead) -> Plan:
    """Map traffic onto the links of a topology.

    Args:
        topology: the topology with all ranks placed.

    Raises:
        PlanError: an algorithm does not exist, there is no path between two ranks, or the plan would take too long.
    """
    check_size(traffic, most=MOST_TRANSFERS)
    planner = _Planner(router, overhead)
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
        entropy_values=len(router.sprays),
    )


def instance_ns(traffic: Traffic, plan: Plan) -> IntArray | None:
    """Ideal time of each instance of a trace, ns; None if one is unknown."""
    found = np.array([plan.operations[place.operation].group_ns[place.group] for place in traffic.places])
    return None if np.isnan(found).any() else round_up_ns(found)


class _Planner:
    """Plans operations one by one and adds up their loads."""

    def __init__(self, router: Router, overhead: WireOverhead) -> None:
        self._router = router
        links = router.paths.network.links
        rates = [link.rate_bps or np.nan for link in links]
        self._rate_bps = np.repeat(np.array(rates, dtype=np.float64), 2)
        self._byte_ns = float(overhead.factor) * BITS_PER_BYTE * NS_PER_S / self._rate_bps
        self._even, self._hashed = np.zeros(2 * len(links)), np.zeros(2 * len(links))
        self._flow_count = np.zeros(2 * len(links), dtype=np.int64)
        self._flow_list = _FlowList(len(router.rank_host))

    def operation(self, operation: Operation) -> OperationPlan:
        work = OperationLoads(operation, self._router, self._byte_ns)
        exchange = operation.exchange if self._router.is_by_switch else None
        if exchange is not None and self._flow_list.skip(operation, self._router):
            flows = self._exchange(operation, exchange, work)
        else:
            flows = self._flows(operation, work)
        self._even += work.even
        self._hashed += work.hashed
        self._flow_count += work.flow_count
        return self._operation_plan(operation, work, flows)

    def _flows(self, operation: Operation, work: OperationLoads) -> FlowSpread:
        """Follow every flow."""
        parts = [_merged(part, operation.members) for part in operation.totals()]
        for groups, batches in flow_batches(operation, parts):
            for batch in batches:
                self._flow_list.add(work.add(batch), operation.counts)
            work.finish(groups)
        return _spread(parts)

    def _exchange(self, operation: Operation, exchange: FullExchange, work: OperationLoads) -> FlowSpread:
        """Add up a full exchange; only what a hash decides is followed flow by flow."""
        flows = operation.members * (operation.members - 1)
        step = max(1, FLOWS_AT_ONCE // flows)
        for first in range(0, operation.groups, step):
            groups = range(first, min(first + step, operation.groups))
            if not work.add_exchange(exchange, groups):
                for part in operation.totals():
                    batch = batch_of(operation, groups, part)
                    remote = self._router.remote(batch.senders, batch.receivers)
                    work.add_hashed(FlowBatch(*(column[remote] for column in batch)), first=first)
            work.finish(groups)
        return FlowSpread(flows, exchange.least, exchange.most)

    def loads(self) -> Loads:
        return Loads(self._even, self._hashed, self._flow_count, self._rate_bps, self._router.is_choice)

    def flows(self) -> Sequence[RankFlow] | None:
        return self._flow_list.flows()

    def _operation_plan(self, operation: Operation, work: OperationLoads, flows: FlowSpread) -> OperationPlan:
        network, local, domain = work.bytes.tolist()
        return OperationPlan(
            operation=operation,
            network_bytes=network,
            local_bytes=local,
            domain_bytes=domain,
            flows=flows,
            incast=incast_of(operation, self._router),
            domain_ns=longest_ns(work.domain_ns),
            port_ns=longest_ns(work.port_ns),
            ideal_ns=longest_ns(work.even_ns),
            hashed_ns=longest_ns(work.hashed_ns),
            together_ns=longest_ns(work.together_ns),
            together_hashed_ns=longest_ns(work.together_hashed_ns),
            fair_ns=None if self._router.sprays else fluid_ns(operation, self._router, self._byte_ns),
            group_ns=work.even_ns,
        )


class _FlowList:
    """Flows between hosts, until there are more than LISTED_FLOWS."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._pairs: list[tuple[IntArray, FloatArray]] | None = []

    def add(self, batch: FlowBatch, counts: IntArray) -> None:
        if self._pairs is None:
            return
        sizes = (batch.sizes * counts[batch.groups]).astype(np.float64)
        self._pairs.append((batch.senders * self._ranks + batch.receivers, sizes))
        if sum(len(keys) for keys, _ in self._pairs) > LISTED_FLOWS:
            self._pairs = None

    def skip(self, operation: Operation, router: Router) -> bool:
        """Whether the flows of a full exchange need not be listed: none leaves a host, or there are too many."""
        hosts = np.sort(router.rank_host[operation.ranks], axis=1)
        starts = np.flatnonzero(np.diff(hosts, axis=1, prepend=-1).ravel())
        count = np.diff(starts, append=hosts.size)
        flows = int((count * (operation.members - count)).sum())
        if flows > LISTED_FLOWS:
            self._pairs = None
        return not flows or self._pairs is None

    def flows(self) -> Sequence[RankFlow] | None:
        """Largest first; None if there are too many."""
        if self._pairs is None:
            return None
        keys = np.concatenate([np.zeros(0, dtype=np.int64), *(keys for keys, _ in self._pairs)])
        keys, sizes = sum_by(keys, np.concatenate([np.zeros(0), *(sizes for _, sizes in self._pairs)]))
        order = np.argsort(-sizes, kind="stable")
        return [RankFlow(*divmod(int(keys[at]), self._ranks), int(sizes[at])) for at in order]


def _merged(part: Phase, members: int) -> Phase:
    """Every pair once."""
    keys, sizes = sum_by(part.senders * members + part.receivers, part.sizes)
    senders, receivers = np.divmod(keys, members)
    return Phase(senders, receivers, np.rint(sizes).astype(np.int64), part.steps)


def _spread(parts: Sequence[Phase]) -> FlowSpread:
    filled = [part.sizes for part in parts if len(part.sizes)]
    if not filled:
        return FlowSpread(0, 0, 0)
    least, most = min(int(sizes.min()) for sizes in filled), max(int(sizes.max()) for sizes in filled)
    return FlowSpread(sum(map(len, filled)), least, most)


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
