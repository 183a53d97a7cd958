"""Hosts that come from agents: a topology file that says how many, and the agents that joined → hosts of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from msgspec.structs import replace

from emulator.errors import PlanError
from emulator.topology.document import Document
from emulator.topology.file_format import HostSection, JoiningHosts, TopologyFile
from emulator.topology.model import LOOPBACK_BASE, LOOPBACK_BLOCKS

_LOCAL_HOSTS = 256
"""That many have loopback addresses of their own in a block: a /24 each."""
STAND_INS = "its hosts come from the agents that join a run: this plan uses stand-ins without a known rate"
_STAND_IN = ip_address("198.18.0.1")
"""Address of the first stand-in, from the range for benchmarks (RFC 2544)."""


@dataclass(frozen=True, slots=True)
class AgentPort:
    """An interface that an agent offers: rate in bit/s and MTU in bytes; 0: unknown."""

    name: str
    addresses: Sequence[str]
    rate_bps: int = 0
    mtu: int = 0


@dataclass(frozen=True, slots=True)
class JoinedAgent:
    """An agent whose machine becomes a host of the same name.

    Attributes:
        is_local: it runs on the controller's machine, where it can use loopback.
        ports: the interfaces that it was told to use.
    """

    name: str
    is_local: bool
    ports: Sequence[AgentPort]


def stand_ins(wanted: JoiningHosts) -> list[JoinedAgent]:
    """Agents for a plan before any have joined, with addresses that nobody sends to."""
    port = wanted.interface or "eth0"
    return [
        JoinedAgent(f"agent-{number}", False, [AgentPort(port, [str(_STAND_IN + number)])])
        for number in range(wanted.count)
    ]


def with_joined(document: Document, file: TopologyFile, agents: Sequence[JoinedAgent], *, block: int) -> TopologyFile:
    """A topology file with a host for every agent, of its name.

    Args:
        document: the file, for error messages.
        file: with `hosts: {from: agents}`.
        agents: as many as it asks for, in the order of the hosts.
        block: the reserved block of loopback addresses, for agents of this machine that offer no interface.

    Raises:
        PlanError: an agent does not offer the interface, or it has no address.
    """
    wanted = file.hosts
    assert isinstance(wanted, JoiningHosts)
    for key in ("switches", "links", "routes", "agents", "fabric"):
        if getattr(file, key):
            raise document.error(
                f"{key} cannot refer to hosts that come from agents: delete it, or list the hosts", (key,)
            )
    hosts = [_host(document, wanted, agent, number, block) for number, agent in enumerate(agents)]
    return replace(file, hosts=tuple(hosts), agents={agent.name: agent.name for agent in agents})


def _host(document: Document, wanted: JoiningHosts, agent: JoinedAgent, number: int, block: int) -> HostSection:
    if not agent.ports and agent.is_local and wanted.interface in (None, "lo"):
        if number >= _LOCAL_HOSTS:
            raise PlanError(f"{document.path}: at most {_LOCAL_HOSTS} agents of this machine can play over loopback")
        first = LOOPBACK_BASE + (block % LOOPBACK_BLOCKS << 16) + (number << 8)
        prefix = str(ip_network((int(first), 24), strict=False))
        return HostSection(name=agent.name, per_rank=prefix, rate=wanted.rate, slots=wanted.slots, domain=wanted.domain)
    port = _port(document, wanted, agent)
    if not port.addresses:
        raise PlanError(
            f"{document.path}: agent {agent.name} has no address at {port.name}: add one with `ip address add`"
        )
    return HostSection(
        name=agent.name,
        address=_preferred(port.addresses),
        rate=wanted.rate or (f"{port.rate_bps}bit" if port.rate_bps else None),
        mtu=port.mtu or None,
        slots=wanted.slots,
        domain=wanted.domain,
    )


def _port(document: Document, wanted: JoiningHosts, agent: JoinedAgent) -> AgentPort:
    offered = {port.name: port for port in agent.ports}
    if wanted.interface is None and len(offered) == 1:
        return next(iter(offered.values()))
    if wanted.interface in offered:
        return offered[wanted.interface]
    has = f"has {', '.join(offered)}" if offered else "was started without --interface"
    if wanted.interface is None:
        advice = "name one of them in the topology: interface" if offered else "start it with --interface NAME"
    else:
        advice = f"start it with --interface {wanted.interface}"
    raise PlanError(f"{document.path}: agent {agent.name} {has}: {advice}")


def _preferred(addresses: Sequence[str]) -> str:
    """IPv4 where there is one, as every fabric routes it."""
    return min(addresses, key=lambda one: ip_address(one).version)
