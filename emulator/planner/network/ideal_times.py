"""Ideal times: how long the ports of the hosts need at least to carry the bytes of a collective.

The bound is serialisation: for every port, the larger of the bytes out and in, with headers, over its rate. Traffic
between ranks of one host does not cross a port. Inside a scale-up domain it crosses those of two ranks into the domain,
without headers. Latency, dependencies between steps and the network behind the ports are left out, so no measurement
can be faster.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from emulator.planner.algorithms import bytes_per_member, depends_on_layout, schedule
from emulator.planner.group_layout import layouts_on
from emulator.planner.network.header_overhead import NO_HEADERS, TCP_1500, WireOverhead
from emulator.planner.schedule import Collective
from emulator.planner.traffic.operation import TRANSFERS_AT_ONCE
from emulator.planner.traffic.phase import Phase
from emulator.planner.traffic.phases import peer_totals
from emulator.topology.model import Domain, Topology
from emulator.trace.model import Communication, IntArray, Workload
from emulator.units import BITS_PER_BYTE, NS_PER_S

__all__ = ["TCP_1500", "UNKNOWN_NS", "IdealTimes", "WireOverhead", "ideal_per_instance", "serialisation_ns"]
UNKNOWN_NS = -1
Port: TypeAlias = tuple[int, int]
"""(payload bytes out, payload bytes in) of a port."""


def serialisation_ns(ports: Sequence[Port], rates_bps: Sequence[int | None], overhead: WireOverhead) -> int | None:
    """Time until the busiest port is done, ns, rounded up; None if a rate is missing.

    Args:
        ports: payload bytes of each port; ports are full duplex.
        rates_bps: rate of each port, bit/s.
    """
    if any(rate is None for rate in rates_bps):
        return None
    bit_ns = overhead.factor * BITS_PER_BYTE * NS_PER_S
    return max(
        (_ceil(max(port) * bit_ns / rate) for port, rate in zip(ports, rates_bps, strict=True) if rate), default=0
    )


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


class IdealTimes:
    """Ideal times of collectives and pairs on a topology; equal ones are computed once.

    Args:
        topology: the topology with all ranks placed.

    Attributes:
        layouts: of groups on the topology.
    """

    def __init__(self, topology: Topology, overhead: WireOverhead = TCP_1500) -> None:
        self._topology, self._overhead = topology, overhead
        self.layouts = layouts_on(topology)
        self._known: dict[object, int | None] = {}

    def pair_ns(self, *, size_bytes: int, src: int, dst: int) -> int | None:
        """Ideal time of `size_bytes` from world rank `src` to `dst`.

        0 within a host without a domain, None if a port has no rate.
        """
        domain = self._shared_domain((src, dst))
        if domain is not None:
            return serialisation_ns([(size_bytes, size_bytes)], [domain.rate_bps], NO_HEADERS)
        index = self._topology.host_index
        size = size_bytes if index[src] != index[dst] else 0
        return serialisation_ns(
            [(size, 0), (0, size)], [self._topology.rate_bps(rank) for rank in (src, dst)], self._overhead
        )

    def collective_ns(self, algorithm: str, members: Sequence[Collective], *, ranks: Sequence[int]) -> int | None:
        """Ideal time of a collective.

        0 if nothing leaves a host and no host has a domain, None if a port that is needed has no rate.

        Args:
            members: the collective as each member sees it, in group order.
            ranks: world ranks of the members.

        Raises:
            PlanError: the collective has no such algorithm.
        """
        rates = [self._topology.rate_bps(rank) for rank in ranks]
        if None in rates and self._shared_domain(ranks) is None:
            return None
        domains = [self._topology.host_of(rank).domain for rank in ranks]
        hosts = _renumbered([self._topology.host_index[rank] for rank in ranks])
        ports = _renumbered([self._topology.port_of(rank) for rank in ranks])
        first = members[0]
        splits = tuple(one.send_splits for one in members) if first.send_splits is not None else None
        places = tuple(hosts), tuple(ports), tuple(rates), tuple(domains), first.layout
        key = (algorithm, first.kind, first.size_bytes, first.root, splits, places)
        if key not in self._known:
            loads = _port_loads(algorithm, members, hosts, ports)
            rate_of = dict(zip(ports, rates, strict=True))
            used = [port for port, load in enumerate(loads) if max(load)]
            times_ns = (
                serialisation_ns([loads[port] for port in used], [rate_of[port] for port in used], self._overhead),
                serialisation_ns(*_domain_loads(algorithm, members, hosts, domains), NO_HEADERS),
            )
            self._known[key] = None if None in times_ns else max(filter(None, times_ns), default=0)
        return self._known[key]

    def _shared_domain(self, ranks: Sequence[int]) -> Domain | None:
        """The domain that all ranks belong to."""
        first = self._topology.domain_of(ranks[0])
        if first is None or any(self._topology.domain_of(rank) != first for rank in ranks):
            return None
        return self._topology.hosts[first].domain


def _renumbered(places: Sequence[Hashable]) -> list[int]:
    """Places numbered in the order of first appearance, which makes equal patterns equal."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(place, len(numbers)) for place in places]


def _port_loads(
    algorithm: str, members: Sequence[Collective], hosts: Sequence[int], ports: Sequence[int]
) -> list[Port]:
    if max(hosts) + 1 == len(members):
        return [bytes_per_member(algorithm, member) for member in members]
    out, into = (np.zeros(max(ports) + 1, np.int64) for _ in range(2))
    host, port = np.array(hosts), np.array(ports)
    for phase in _transfers(algorithm, members) if max(hosts) else ():
        leaves = host[phase.senders] != host[phase.receivers]
        np.add.at(out, port[phase.senders[leaves]], phase.sizes[leaves])
        np.add.at(into, port[phase.receivers[leaves]], phase.sizes[leaves])
    return list(zip(out.tolist(), into.tolist(), strict=True))


def _domain_loads(
    algorithm: str, members: Sequence[Collective], hosts: Sequence[int], domains: Sequence[Domain | None]
) -> tuple[list[Port], list[int]]:
    """Payload and rate of the ports of the members into their domains."""
    if not any(domains) or max(hosts) + 1 == len(members):
        return [], []
    out, into = (np.zeros(len(members), np.int64) for _ in range(2))
    host = np.array(hosts)
    for phase in _transfers(algorithm, members):
        stays = host[phase.senders] == host[phase.receivers]
        np.add.at(out, phase.senders[stays], phase.sizes[stays])
        np.add.at(into, phase.receivers[stays], phase.sizes[stays])
    has_one = [number for number, domain in enumerate(domains) if domain]
    rates = [domain.rate_bps for domain in domains if domain]
    return [(int(out[number]), int(into[number])) for number in has_one], rates


def _transfers(algorithm: str, members: Sequence[Collective]) -> Iterator[Phase]:
    """What all members send, some members at a time; a walk through all steps would take too long in large groups."""
    if members[0].send_splits is None:
        some = max(1, TRANSFERS_AT_ONCE // len(members))
        for first in range(0, len(members), some):
            yield peer_totals(algorithm, members[0], np.arange(first, min(first + some, len(members)), dtype=np.int64))
        return
    for member in members:
        sends = [send for lane in schedule(algorithm, member) for step in lane for send in step.sends]
        receivers, sizes = (np.array(column, np.int64) for column in ([s.peer for s in sends], [s.size for s in sends]))
        yield Phase(np.full(len(sends), member.member), receivers, sizes)


def ideal_per_instance(
    workload: Workload,
    topology: Topology,
    *,
    algorithm_of: Callable[[Communication], str],
    overhead: WireOverhead = TCP_1500,
) -> IntArray:
    """Ideal times of all merged collectives and pairs of a workload.

    Args:
        workload: the workload, with scaled sizes.
        topology: the topology with all ranks placed.

    Returns:
        ns, shape (workload.instances,); UNKNOWN_NS if a port has no rate.

    Raises:
        PlanError: there is no such algorithm.
    """
    plan = _WorkloadTimes(workload, IdealTimes(topology, overhead), algorithm_of)
    ideal = np.full(workload.instances, UNKNOWN_NS, np.int64)
    seen = np.zeros(workload.instances, np.bool_)
    uneven: dict[int, dict[int, Communication]] = {}
    for program in workload.programs:
        for node in program.communications.values():
            if node.send_splits is not None:
                uneven.setdefault(node.instance, {})[program.rank] = node
            elif not seen[node.instance]:
                seen[node.instance] = True
                ideal[node.instance] = _or_unknown(plan.even_ns(program.rank, node))
    for instance, nodes in uneven.items():
        ideal[instance] = _or_unknown(plan.uneven_ns(nodes))
    return ideal


class _WorkloadTimes:
    """Ideal times of the communications of a workload; each class is computed once."""

    def __init__(self, workload: Workload, times: IdealTimes, algorithm_of: Callable[[Communication], str]) -> None:
        self._workload, self._times, self._algorithm_of = workload, times, algorithm_of
        self._layouts = times.layouts
        self._known: dict[object, int | None] = {}

    def even_ns(self, rank: int, node: Communication) -> int | None:
        if not node.kind.is_collective:
            src, dst = node.ends(rank)
            return self._times.pair_ns(size_bytes=node.size_bytes, src=src, dst=dst)
        key = (node.kind, node.group, node.size_bytes, node.root, self._algorithm_of(node))
        if key not in self._known:
            ranks = self._workload.groups[node.group].ranks
            root = ranks.index(node.root) if node.root in ranks else 0
            name = self._algorithm_of(node)
            layout = self._layouts.of(ranks) if depends_on_layout(node.kind, name) else None
            members = [
                Collective(node.kind, len(ranks), number, node.size_bytes, root, layout=layout)
                for number in range(len(ranks))
            ]
            self._known[key] = self._times.collective_ns(name, members, ranks=ranks)
        return self._known[key]

    def uneven_ns(self, nodes: Mapping[int, Communication]) -> int | None:
        """Ideal time of an uneven all-to-all; `nodes` holds the communication of each world rank."""
        ranks = self._workload.groups[next(iter(nodes.values())).group].ranks
        members = [
            Collective(
                nodes[rank].kind,
                len(ranks),
                number,
                nodes[rank].size_bytes,
                send_splits=nodes[rank].send_splits,
                recv_splits=nodes[rank].recv_splits,
            )
            for number, rank in enumerate(ranks)
        ]
        return self._times.collective_ns(self._algorithm_of(nodes[ranks[0]]), members, ranks=ranks)


def _or_unknown(value: int | None) -> int:
    return UNKNOWN_NS if value is None else value
