"""Bytes that operations, and flows beside a job, put on every link of a network, and the least time that takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from emulator.planner.network.arrays import FloatArray, sum_by
from emulator.planner.network.ecmp import FlowHash
from emulator.planner.network.exchange import ExchangeSums, exchange_incast
from emulator.planner.network.routing import Crossing, Router
from emulator.planner.traffic.operation import Operation
from emulator.planner.traffic.phase import FullExchange, Phase
from emulator.topology.model import Topology
from emulator.topology.network import End
from emulator.trace.meaning.model import BoolArray, IntArray
from emulator.units import BITS_PER_BYTE, NS_PER_S

FLOWS_AT_ONCE = 1 << 20
_ROUNDING_NS = 1e-6
"""Sums of float64 can exceed a whole number of ns by less than this, which does not count as another ns."""


class FlowBatch(NamedTuple):
    """Flows of several groups: group number, world ranks and bytes of each."""

    groups: IntArray
    senders: IntArray
    receivers: IntArray
    sizes: IntArray


def flow_batches(operation: Operation, parts: list[Phase]) -> Iterator[tuple[range, list[FlowBatch]]]:
    """The flows of an operation: ranges of groups with about FLOWS_AT_ONCE flows, and their batches, one per part."""
    flows = sum(len(part.sizes) for part in parts)
    step = max(1, FLOWS_AT_ONCE // max(1, flows))
    for first in range(0, operation.groups, step):
        groups = range(first, min(first + step, operation.groups))
        yield groups, [batch_of(operation, groups, part) for part in parts]


def round_up_ns(times_ns: FloatArray) -> IntArray:
    """Times in whole ns, rounded up."""
    return np.ceil(times_ns - _ROUNDING_NS).astype(np.int64)


def longest_ns(times_ns: FloatArray) -> int | None:
    """The longest time in whole ns, rounded up; 0 if there are none, None if one is unknown (NaN)."""
    if np.isnan(times_ns).any():
        return None
    return int(round_up_ns(times_ns).max(initial=0))


class OperationLoads:
    """Loads of one operation, added up batch by batch; the flows of a batch belong to whole groups, or to part of one.

    Links at hosts and links between switches are kept apart: the load of the former does not depend on the path. So are
    the ports of ranks into scale-up domains, which are no links.

    Args:
        byte_ns: per directed link, time of a payload byte; NaN if not known.

    Attributes:
        flow_count: int64, shape (directed links,): flows on each link with hashing.
        bytes: of an iteration: between hosts, within hosts, of those through domains.
    """

    def __init__(self, operation: Operation, router: Router, byte_ns: FloatArray) -> None:
        self._operation, self._router, self._byte_ns = operation, router, byte_ns
        self._edges, self._even, self._hashed = (_LinkLoads(operation, byte_ns) for _ in range(3))
        self._domains = _LinkLoads(operation, _domain_byte_ns(router))
        self.bytes = np.zeros(3, dtype=np.int64)
        self.flow_count = np.zeros(len(byte_ns), dtype=np.int64)

    @property
    def even(self) -> FloatArray:
        """Bytes of an iteration on every link, with equal-cost paths shared evenly."""
        return self._edges.total + self._even.total

    @property
    def hashed(self) -> FloatArray:
        """Bytes of an iteration on every link, with every flow on one path, or every entropy value of it."""
        return self._edges.total + self._hashed.total

    @property
    def domain_ns(self) -> FloatArray:
        """Per group, least time by the scale-up domains alone."""
        return self._domains.group_ns

    @property
    def port_ns(self) -> FloatArray:
        """Per group, least time by the ports of the hosts and by domains alone."""
        return np.maximum(self._edges.group_ns, self._domains.group_ns)

    @property
    def even_ns(self) -> FloatArray:
        """Per group, least time by domains and all links, with equal-cost paths shared evenly."""
        return np.maximum(self.port_ns, self._even.group_ns)

    @property
    def hashed_ns(self) -> FloatArray:
        """Per group, least time by domains and all links, with every flow on one path."""
        return np.maximum(self.port_ns, self._hashed.group_ns)

    @property
    def together_ns(self) -> FloatArray:
        """Per used link and port of a domain, time with all groups at once, with equal-cost paths shared evenly."""
        return self._used_ns(self._even)

    @property
    def together_hashed_ns(self) -> FloatArray:
        """Per used link and port of a domain, time with all groups at once, with every flow on one path."""
        return self._used_ns(self._hashed)

    def add(self, batch: FlowBatch) -> FlowBatch:
        """Add flows; returns those that leave their host."""
        remote = self._router.remote(batch.senders, batch.receivers)
        inside = self._router.inside(batch.senders, batch.receivers)
        weighted = batch.sizes * self._operation.counts[batch.groups]
        self.bytes += [weighted[chosen].sum() for chosen in (remote, ~remote, inside)]
        first = int(batch.groups[0]) if len(batch.groups) else 0
        if inside.any():
            kept = FlowBatch(*(column[inside] for column in batch))
            for ports in (2 * kept.senders, 2 * kept.receivers + 1):
                self._domains.add(kept.groups, ports, kept.sizes, first=first)
        batch = FlowBatch(*(column[remote] for column in batch))
        ends = batch.senders, batch.receivers
        self._cross(self._edges, batch, self._router.edges(*ends), first=first)
        self.add_hashed(batch, first=first)
        for groups, links, parts in self._router.spread(batch.groups - first, *ends, batch.sizes):
            self._even.add(groups + first, links, parts, first=first)
        return batch

    def add_hashed(self, batch: FlowBatch, *, first: int) -> None:
        """Add flows that leave their host to the loads between switches by hashing alone.

        Args:
            first: the first unfinished group.
        """
        shares: Sequence[FlowHash | None] = self._router.sprays or (None,)
        for one in shares:
            crossings = self._router.hashed(batch.senders, batch.receivers, one)
            self._cross(self._hashed, batch, crossings, first=first, share=len(shares))

    def _cross(
        self, loads: _LinkLoads, batch: FlowBatch, crossings: Iterable[Crossing], *, first: int, share: int = 1
    ) -> None:
        for crossing in crossings:
            sizes = batch.sizes[crossing.flows] / share
            loads.add(batch.groups[crossing.flows], crossing.links, sizes, first=first)
            self.flow_count += np.bincount(crossing.links, minlength=len(self.flow_count))

    def add_exchange(self, exchange: FullExchange, groups: range) -> bool:
        """Add all flows of groups in a full exchange; whether that includes those by hashing.

        It does if there is one path from switch to switch: else hashing needs every flow, for `add_hashed`. Paths must
        depend on switches alone, see Router.is_by_switch.
        """
        first, router, added = groups.start, self._router, ExchangeSums(self._operation, exchange, groups, self._router)
        members = added.members
        counts = self._operation.counts[groups.start : groups.stop][members.groups]
        inside = router.in_domain[members.ranks]
        local = members.near_out * counts
        self.bytes += [(members.out * counts).sum(), local.sum(), local[inside].sum()]
        kept = inside & (members.near_out > 0)
        for ports, sizes in ((2 * members.ranks, members.near_out), (2 * members.ranks + 1, members.near_into)):
            self._domains.add(members.groups[kept] + first, ports[kept], sizes[kept], first=first)
        far = members.far > 0
        for links, sizes in zip(router.host_links(members.ranks), (members.out, members.into), strict=True):
            self._edges.add(members.groups[far] + first, links[far], sizes[far], first=first)
            np.add.at(self.flow_count, links[far], members.far[far])
        between = added.between_switches()
        for number, links, parts in router.spread(between.groups, between.senders, between.receivers, between.sizes):
            self._even.add(number + first, links, parts, first=first)
        crossings = list(router.hashed(between.senders, between.receivers))
        if any(router.is_choice[crossing.links].any() for crossing in crossings):
            return False
        for crossing in crossings:
            sizes, flows = between.sizes[crossing.flows], between.flows[crossing.flows]
            self._hashed.add(between.groups[crossing.flows] + first, crossing.links, sizes, first=first)
            np.add.at(self.flow_count, crossing.links, flows)
        return True

    def finish(self, groups: range) -> None:
        """Complete these groups: all their flows have been added."""
        for loads in (self._edges, self._even, self._hashed, self._domains):
            loads.finish(first=groups.start)

    def _used_ns(self, between_switches: _LinkLoads) -> FloatArray:
        links, domains = self._edges.once + between_switches.once, self._domains
        return np.concatenate([_times_ns(links, self._byte_ns), _times_ns(domains.once, domains.byte_ns)])


def _times_ns(loads: FloatArray, byte_ns: FloatArray) -> FloatArray:
    """Times of the links with a load."""
    used = loads > 0
    times_ns: FloatArray = loads[used] * byte_ns[used]
    return times_ns


def _domain_byte_ns(router: Router) -> FloatArray:
    """Time of a byte at the port of each rank out of its domain (even index) and into it (odd); NaN without one."""
    hosts = router.topology.hosts
    rates = np.array([host.domain.rate_bps if host.domain else np.nan for host in hosts], np.float64)
    return np.repeat(BITS_PER_BYTE * NS_PER_S / rates[router.rank_host], 2)


class _LinkLoads:
    """Bytes on links: of each group that is being added up, and of all groups together.

    Attributes:
        byte_ns: float64, shape (directed links,).
        total: the same shape, each group as often as it performs the operation.
        once: the same, each group once.
        group_ns: float64, shape (groups,): time of a group's slowest link.
    """

    def __init__(self, operation: Operation, byte_ns: FloatArray) -> None:
        self._counts, self.byte_ns = operation.counts.astype(np.float64), byte_ns
        self._unfinished: list[tuple[IntArray, FloatArray]] = []
        self.total, self.once = np.zeros(len(byte_ns)), np.zeros(len(byte_ns))
        self.group_ns = np.zeros(operation.groups)

    def add(self, groups: IntArray, links: IntArray, sizes: FloatArray | IntArray, *, first: int) -> None:
        """Add bytes of groups on links; `first` is the first unfinished group."""
        self._unfinished.append(sum_by((groups - first) * len(self.byte_ns) + links, sizes))

    def finish(self, *, first: int) -> None:
        """Complete the unfinished groups."""
        unfinished, self._unfinished = self._unfinished, []
        if not sum(len(keys) for keys, _ in unfinished):
            return
        keys, sizes = sum_by(*(np.concatenate(columns) for columns in zip(*unfinished, strict=True)))
        groups, links = np.divmod(keys, len(self.byte_ns))
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        groups += first
        self.group_ns[groups[starts]] = np.maximum.reduceat(sizes * self.byte_ns[links], starts)
        self.once += np.bincount(links, sizes, len(self.once))
        self.total += np.bincount(links, sizes * self._counts[groups], len(self.once))


def batch_of(operation: Operation, groups: range, part: Phase) -> FlowBatch:
    """The flows of some groups in part of an operation."""
    ranks = operation.ranks[groups.start : groups.stop]
    numbers = np.arange(groups.start, groups.stop, dtype=np.int64)
    return FlowBatch(
        np.repeat(numbers, len(part.sizes)),
        ranks[:, part.senders].ravel(),
        ranks[:, part.receivers].ravel(),
        np.tile(part.sizes, len(groups)),
    )


class Incast(NamedTuple):
    """Most senders in a step.

    Attributes:
        rank: to one rank, including senders on its host that share no scale-up domain with it.
        port: from other hosts to one port.
    """

    rank: int
    port: int


def incast_of(operation: Operation, router: Router) -> Incast:
    """Incast of the group where it is largest. Groups with the same pattern of hosts and ports are computed once."""
    patterns = _patterns(operation.ranks, router)
    ranks = ports = 0
    exchange = operation.exchange
    if exchange is not None:
        found = [exchange_incast(*pattern, is_by_distance=exchange.is_by_distance) for pattern in patterns]
        return Incast(*(max(column) for column in zip(*found, strict=True)))
    for phase in operation.phases():
        senders, receivers = _pairs(phase, operation.members)
        for host, port, in_domain in patterns:
            remote = host[senders] != host[receivers]
            ranks = max(ranks, _most(receivers[remote | ~in_domain[senders]]))
            ports = max(ports, _most(port[receivers[remote]]))
    return Incast(ranks, ports)


def _pairs(phase: Phase, members: int) -> tuple[IntArray, IntArray]:
    """Every (sender, receiver) pair of the phase once."""
    keys = np.unique(phase.senders * members + phase.receivers)
    return keys // members, keys % members


def _most(receivers: IntArray) -> int:
    return int(np.bincount(receivers).max()) if len(receivers) else 0


def _patterns(ranks: IntArray, router: Router) -> list[tuple[IntArray, IntArray, BoolArray]]:
    """Distinct patterns of (host, port, is in a domain) of each member, numbered in the order of first appearance."""
    found: dict[bytes, tuple[IntArray, IntArray, BoolArray]] = {}
    for members in ranks:
        host, port = _renumbered(router.rank_host[members]), _renumbered(router.rank_port[members])
        in_domain = router.in_domain[members]
        found.setdefault(host.tobytes() + port.tobytes() + in_domain.tobytes(), (host, port, in_domain))
    return list(found.values())


def _renumbered(places: IntArray) -> IntArray:
    _, first, inverse = np.unique(places, return_index=True, return_inverse=True)
    numbers: IntArray = first[inverse].astype(np.int64)
    return numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLoad:
    """One direction of a flow.

    Attributes:
        kind: of the flow, as in a run spec.
        sender, receiver: ports of hosts.
        payload_bytes: of the whole run; None: as much as there is time for.
    """

    number: int
    kind: str
    about: str
    sender: End
    receiver: End
    payload_bytes: int | None


@dataclass(frozen=True, slots=True)
class LinkLoad:
    """A directed link that flows cross.

    Attributes:
        link: its number, see Paths.
        payload_bytes: of the flows whose payload is known.
        unlimited: how many others there are.
    """

    link: int
    payload_bytes: float
    unlimited: int


def flow_link_loads(loads: Sequence[FlowLoad], topology: Topology) -> list[LinkLoad]:
    """Every link that flows cross, the most loaded first.

    Raises:
        PlanError: there is no path between the two ends of a flow.
    """
    if not loads:
        return []
    places = [_place(end, topology) for load in loads for end in (load.sender, load.receiver)]
    hosts, ports = zip(*places, strict=True)
    as_ranks = replace(
        topology, host_index=hosts, interface_index=ports, addresses=["0.0.0.0"] * len(places), storage_endpoints=0
    )
    router = Router(as_ranks)
    senders = np.arange(0, len(places), 2, dtype=np.int64)
    receivers, groups = senders + 1, np.arange(len(loads), dtype=np.int64)
    crossed = np.zeros((len(loads), len(router.paths.source)))  # share of each flow on each link
    for crossing in router.edges(senders, receivers):
        np.add.at(crossed, (crossing.flows, crossing.links), 1)
    for flows, links, shares in router.spread(groups, senders, receivers, np.ones(len(loads), dtype=np.int64)):
        np.add.at(crossed, (flows, links), shares)
    sizes = np.array([load.payload_bytes or 0 for load in loads], dtype=np.float64)
    is_unlimited = np.array([load.payload_bytes is None for load in loads])
    known, unlimited = sizes @ crossed, (crossed[is_unlimited] > 0).sum(axis=0)
    found = [LinkLoad(int(at), float(known[at]), int(unlimited[at])) for at in np.flatnonzero(crossed.any(axis=0))]
    return sorted(found, key=lambda one: (-one.unlimited, -one.payload_bytes, one.link))


def _place(end: End, topology: Topology) -> tuple[int, int]:
    """Numbers of a host and of its port."""
    number, host = next((number, host) for number, host in enumerate(topology.hosts) if host.name == end.node)
    return number, [port.name for port in host.interfaces].index(end.port)
