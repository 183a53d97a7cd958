"""Loads of links by flows beside a job: payload of the whole run, with equal-cost paths shared evenly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from emulator.planner.network.routing import Router
from emulator.topology.model import Topology
from emulator.topology.network import End


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
