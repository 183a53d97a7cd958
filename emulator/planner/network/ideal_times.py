"""Ideal times: how long the ports of the hosts need at least to carry the bytes of a collective.

The bound is serialisation: for every port, the larger of the bytes out and in, with headers, over its rate. Traffic
between ranks of one host does not cross a port. Inside a scale-up domain it crosses those of two ranks into the domain,
without headers. Latency, dependencies between steps and the network behind the ports are left out, so no measurement
can be faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from emulator.planner.group_layout import layouts_on
from emulator.planner.network.header_overhead import NO_HEADERS, TCP_1500, WireOverhead
from emulator.planner.traffic.from_trace import traffic_of_workload
from emulator.planner.traffic.operation import Operation
from emulator.topology.model import Domain, Topology
from emulator.trace.meaning.model import BoolArray, Communication, IntArray, Workload
from emulator.units import BITS_PER_BYTE, NS_PER_S

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
        (math.ceil(max(port) * bit_ns / rate) for port, rate in zip(ports, rates_bps, strict=True) if rate), default=0
    )


def group_times_ns(operation: Operation, topology: Topology, overhead: WireOverhead = TCP_1500) -> list[int | None]:
    """Ideal time of each group of an operation on its own; equal ones are computed once.

    0 if nothing leaves a host and no host has a domain, None if a port that is needed has no rate.

    Args:
        topology: the topology with all ranks placed.

    Raises:
        PlanError: the collective has no such algorithm.
    """
    known: dict[GroupPlaces, int | None] = {}
    found = []
    for ranks in operation.ranks.tolist():
        places = GroupPlaces.of(ranks, topology)
        if places not in known:
            known[places] = _group_ns(operation, places, overhead)
        found.append(known[places])
    return found


class GroupPlaces(NamedTuple):
    """Where the members of a group are: hosts and ports in the order of first appearance, so that equal ones are equal.

    Attributes:
        domains: of the hosts of the members.
        is_domain: all of them are in one.
    """

    hosts: tuple[int, ...]
    ports: tuple[int, ...]
    rates_bps: tuple[int | None, ...]
    domains: tuple[Domain | None, ...]
    is_domain: bool

    @classmethod
    def of(cls, ranks: Sequence[int], topology: Topology) -> GroupPlaces:
        """Those of a group, in group order."""
        return cls(
            _renumbered([topology.host_index[rank] for rank in ranks]),
            _renumbered([topology.port_of(rank) for rank in ranks]),
            tuple(topology.rate_bps(rank) for rank in ranks),
            tuple(topology.host_of(rank).domain for rank in ranks),
            topology.domain_of(ranks[0]) is not None and len({topology.domain_of(rank) for rank in ranks}) == 1,
        )


def _group_ns(operation: Operation, places: GroupPlaces, overhead: WireOverhead) -> int | None:
    if None in places.rates_bps and not places.is_domain:
        return None
    host, port = np.array(places.hosts), np.array(places.ports)
    in_domain = np.array([domain is not None for domain in places.domains])
    ports, members = _Loads(max(places.ports) + 1), _Loads(len(host))
    for phase in operation.totals() if max(places.hosts) or in_domain.any() else ():
        leaves = host[phase.senders] != host[phase.receivers]
        ports.add(port[phase.senders], port[phase.receivers], phase.sizes, leaves)
        members.add(phase.senders, phase.receivers, phase.sizes, in_domain[phase.senders] & ~leaves)
    rate_of = dict(zip(places.ports, places.rates_bps, strict=True))
    domain_rates = [None if domain is None else domain.rate_bps for domain in places.domains]
    times_ns = [
        serialisation_ns(list(used.values()), [rates[number] for number in used], share)
        for used, rates, share in ((ports.used(), rate_of, overhead), (members.used(), domain_rates, NO_HEADERS))
    ]
    return None if None in times_ns else max(filter(None, times_ns), default=0)


class _Loads:
    """Payload bytes out of ports and into them."""

    def __init__(self, ports: int) -> None:
        self._out, self._into = (np.zeros(ports, np.int64) for _ in range(2))

    def add(self, senders: IntArray, receivers: IntArray, sizes: IntArray, chosen: BoolArray) -> None:
        np.add.at(self._out, senders[chosen], sizes[chosen])
        np.add.at(self._into, receivers[chosen], sizes[chosen])

    def used(self) -> dict[int, Port]:
        """Port → its bytes, where there are any."""
        loads = enumerate(zip(self._out.tolist(), self._into.tolist(), strict=True))
        return {number: load for number, load in loads if max(load)}


def _renumbered(places: Sequence[Hashable]) -> tuple[int, ...]:
    numbers: dict[Hashable, int] = {}
    return tuple(numbers.setdefault(place, len(numbers)) for place in places)


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
    traffic = traffic_of_workload(workload, name_of=algorithm_of, layouts=layouts_on(topology))
    known = [group_times_ns(operation, topology, overhead) for operation in traffic.operations]
    found = [known[place.operation][place.group] for place in traffic.places]
    return np.array([UNKNOWN_NS if one is None else one for one in found], np.int64)
