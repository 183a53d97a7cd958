"""Which agent plays which ranks: those that dial in by the topology's names, local ones for all other hosts."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from emulator.control.conversation import DomainPlace
from emulator.errors import PlanError
from emulator.topology.model import Topology

FIRST_LOCAL = "agent-0"


@dataclass(frozen=True, slots=True)
class Assignment:
    """Agents and their ranks.

    Attributes:
        ranks_of: agent → the ranks it plays.
        local: agents that the controller starts on this host; all others dial in.
    """

    ranks_of: Mapping[str, Sequence[int]]
    local: frozenset[str]

    @property
    def remote(self) -> list[str]:
        """Agents that dial in, in order."""
        return [name for name in self.ranks_of if name not in self.local]


def assign_ranks(
    topology: Topology,
    *,
    local_agents: int | None = None,
    is_by_hand: bool = False,
    apart: Collection[str] = (),
    others: Collection[str] = (),
) -> Assignment:
    """Every rank to an agent; the ranks of a scale-up domain to one, since they share it.

    Args:
        topology: with a place for every rank.
        local_agents: how many to start on this host for hosts that no named agent serves; None = one per core.
        is_by_hand: none is started: a host without a named agent is served by one of the host's name.
        apart: hosts that nobody else can serve: without a named agent each has a local one of its own name.
        others: hosts that need an agent even if they have no rank.

    Raises:
        PlanError: the topology gives an agent a name that local agents have.
    """
    dialling: dict[str, list[int]] = {}
    inside: dict[str, list[int]] = {}
    local: list[int] = []
    for rank in range(topology.endpoints):
        host = topology.host_of(rank).name
        agent = topology.agents.get(host, host if is_by_hand else None)
        if agent is not None:
            dialling.setdefault(agent, []).append(rank)
        elif host in apart:
            inside.setdefault(host, []).append(rank)
        else:
            local.append(rank)
    for host in others:
        agent = topology.agents.get(host, host if is_by_hand else None)
        if agent is not None:
            dialling.setdefault(agent, [])
        elif host in apart:
            inside.setdefault(host, [])
    shared = inside | (share_ranks(local, local_agents, topology.domain_of) if local else {})
    if others and not shared and not dialling.keys() >= {topology.agents.get(host, host) for host in others}:
        shared = {FIRST_LOCAL: []}
    taken = sorted(set(shared) & set(dialling))
    if taken:
        raise PlanError(f"the topology names an agent {taken[0]}, the name of a local agent: rename it")
    return Assignment(dialling | shared, frozenset(shared))


def agents_at(host: str, assignment: Assignment, topology: Topology) -> list[str]:
    """The agents that serve a host, in order; the first local one for a host on this machine without ranks."""
    ranks = {rank for rank in range(topology.ranks) if topology.host_of(rank).name == host}
    found = [name for name, own in assignment.ranks_of.items() if ranks.intersection(own)]
    named = topology.agents.get(host, host)
    return found or [named if named in assignment.ranks_of else sorted(assignment.local)[0]]


def share_ranks(
    ranks: Sequence[int], agents: int | None, domain_of: Callable[[int], int | None] = lambda rank: None
) -> dict[str, list[int]]:
    """Ranks in contiguous blocks over agents `agent-0` …

    Args:
        ranks: in order.
        agents: how many at most; None = one per core. Never more than ranks and domains.
        domain_of: the scale-up domain of a rank, which stays together; None: it has none.
    """
    together: dict[Hashable, list[int]] = {}
    for rank in ranks:
        domain = domain_of(rank)
        together.setdefault(("rank", rank) if domain is None else ("domain", domain), []).append(rank)
    total, count = len(ranks), max(1, min(len(ranks), agents or len(os.sched_getaffinity(0))))
    blocks: dict[int, list[int]] = {}
    placed = 0
    for part in together.values():
        blocks.setdefault(((placed + 1) * count - 1) // total, []).extend(part)
        placed += len(part)
    return {f"agent-{number}": sorted(block) for number, block in enumerate(blocks.values())}


def domains_of(topology: Topology, ranks: Iterable[int]) -> list[DomainPlace]:
    """The scale-up domains of the ranks of an agent."""
    found: dict[int, list[int]] = {}
    for rank in ranks:
        if (domain := topology.domain_of(rank)) is not None:
            found.setdefault(domain, []).append(rank)
    places = []
    for number, members in found.items():
        facts = topology.hosts[number].domain
        assert facts is not None  # as domain_of says
        places.append(DomainPlace(members, facts.rate_bps, facts.latency_ns))
    return places


def networks_beside(topology: Topology, ranks: Sequence[int], *, alternate: bool = False) -> list[str]:
    """Prefixes of the ranks elsewhere, for agents that reach them on their own link; none where a router is between.

    `alternate`: those of second addresses.
    """
    if any(switch.kind == "router" for switch in topology.network.switches):
        return []
    own, hosts = {topology.port_of(rank) for rank in ranks}, {topology.host_index[rank] for rank in ranks}
    found: dict[str, None] = {}
    for rank in range(topology.endpoints):
        if topology.port_of(rank) not in own and not alternate:
            found[topology.interface_of(rank).prefix or topology.address_of(rank)] = None
        elif alternate and topology.host_index[rank] not in hosts and (second := topology.alternate_of(rank)):
            found[topology.alternate_interface_of(rank).prefix or second] = None
    return list(found)
