"""Bytes that operations put on every link of a network, and the least time that takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from emulator.planner.network.arrays import FloatArray, sum_by
from emulator.planner.network.ecmp import FlowHash
from emulator.planner.network.routing import Router
from emulator.planner.traffic.operation import Operation
from emulator.planner.traffic.phase import Phase
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
        yield groups, [_batch(operation, groups, part) for part in parts]


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
        shares: Sequence[FlowHash | None] = self._router.sprays or (None,)
        between = (crossing for one in shares for crossing in self._router.hashed(*ends, one))
        for loads, crossings, share in (
            (self._edges, self._router.edges(*ends), 1),
            (self._hashed, between, len(shares)),
        ):
            for crossing in crossings:
                sizes = batch.sizes[crossing.flows] / share
                loads.add(batch.groups[crossing.flows], crossing.links, sizes, first=first)
                self.flow_count += np.bincount(crossing.links, minlength=len(self.flow_count))
        for groups, links, parts in self._router.spread(batch.groups - first, *ends, batch.sizes):
            self._even.add(groups + first, links, parts, first=first)
        return batch

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


def _batch(operation: Operation, groups: range, part: Phase) -> FlowBatch:
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
