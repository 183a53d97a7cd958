"""A topology for a given number of ranks: hosts, the place and address of every rank, the network between hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address

from emulator.errors import PlanError
from emulator.topology.network import Dut, Interface, Network, assumed_network

LOOPBACK_BASE = IPv4Address("127.1.0.1")
"""First address of the default topology, past those that resolvers and hosts files commonly use."""
_LOOPBACK_END = IPv4Address("127.255.255.255")
_BLOCK = 1 << 16
LOOPBACK_BLOCKS = 254
_ONE_PORT = "eth0"


@dataclass(frozen=True, slots=True)
class Peer:
    """How to meet a host that runs nothing of Charkha.

    Attributes:
        address: of its NIC, numeric.
        exchange: numeric address where its perftest waits.
        port: TCP port there.
    """

    address: str
    exchange: str
    port: int


@dataclass(frozen=True, slots=True)
class Domain:
    """What connects the ranks of a host to each other beside the network, as NVLink does: a scale-up domain.

    Attributes:
        rate_bps: of each rank in each direction, bit/s.
        latency_ns: of a transfer in addition to its bytes, ns.
    """

    rate_bps: int
    latency_ns: int = 0


@dataclass(frozen=True, slots=True)
class Host:
    """A machine with one or more ports to the network.

    Attributes:
        storage: it stores what ranks write and holds what they read; it takes no ranks.
        rate_bps: rate of each port, bit/s; None if not specified, or if its ports differ.
        interfaces: its ports; empty in a topology without a file, where a host has one port.
        peer: of a host that runs nothing of Charkha, and takes no ranks; None for all others.
        domain: what its ranks reach each other through; None: the network, or the host's own stack.
    """

    name: str
    rate_bps: int | None = None
    interfaces: Sequence[Interface] = ()
    storage: bool = False
    peer: Peer | None = None
    domain: Domain | None = None


@dataclass(frozen=True, slots=True)
class Topology:
    """Hosts, the place of every rank on them, and the network between them.

    An endpoint is a rank, or an interface of a storage host. Endpoints are numbered: first the ranks, then those of
    storage hosts. What holds "per rank" here and in methods holds for them as well.

    Attributes:
        name: shown in reports.
        hosts: all hosts, with and without ranks.
        host_index: per rank, index into `hosts`.
        addresses: per rank, a numeric IP address.
        storage_endpoints: how many there are; they are the last ones.
        source: the file it was loaded from; None if it was generated.
        digest: SHA-256 of that file, in hex.
        interface_index: per rank, index into its host's `interfaces`; empty if each host has one port.
        drawn: the network that the file describes; None if it has no links, see `network`.
        dut: the device under test; None if the file names none.
        agents: host → name of the agent that serves it; all other hosts are served by local agents.
        transport: `name` and parameters of the transport; the command line overrides them.
        alternates: per rank, the address of its second path, at the next interface of its host, "" where there is none;
            empty: none has one, or it is not used.
        notes: what was left out when the file of another tool was converted, for the user.
    """

    name: str
    hosts: Sequence[Host]
    host_index: Sequence[int]
    addresses: Sequence[str]
    source: str | None = None
    digest: str | None = None
    interface_index: Sequence[int] = ()
    drawn: Network | None = None
    dut: Dut | None = None
    agents: Mapping[str, str] = field(default_factory=dict)
    transport: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    notes: Sequence[str] = ()
    storage_endpoints: int = 0
    alternates: Sequence[str] = ()

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.endpoints - self.storage_endpoints

    @property
    def endpoints(self) -> int:
        """Number of ranks and of storage endpoints."""
        return len(self.host_index)

    @property
    def network(self) -> Network:
        """The network that the file describes; without one, all hosts at one switch without limits."""
        return self.drawn or assumed_network({host.name: self._interfaces(host) for host in self.hosts})

    @property
    def link_mtu(self) -> int | None:
        """The smallest MTU of a link, bytes of an IP packet; None if not specified."""
        return min((link.mtu for link in self.network.links if link.mtu is not None), default=None)

    @property
    def is_ipv6(self) -> bool:
        """Whether any rank has an IPv6 address."""
        return any(":" in address for address in self.addresses)

    def label_of(self, endpoint: int) -> str:
        """`rank 3`, or the host and the interface of a storage endpoint: `store0:eth0`."""
        if endpoint < self.ranks:
            return f"rank {endpoint}"
        return f"{self.host_of(endpoint).name}:{self.interface_of(endpoint).name}"

    def host_of(self, rank: int) -> Host:
        """The host that a rank runs on."""
        return self.hosts[self.host_index[rank]]

    def domain_of(self, endpoint: int) -> int | None:
        """The scale-up domain that a rank belongs to, by the index of its host; None: it belongs to none.

        What ranks of one domain send each other never reaches the network.
        """
        host = self.host_index[endpoint]
        return None if self.hosts[host].domain is None else host

    def interface_of(self, rank: int) -> Interface:
        """The port that a rank sends through."""
        return self._interfaces(self.host_of(rank))[self.interface_index[rank] if self.interface_index else 0]

    def port_of(self, rank: int) -> tuple[int, int]:
        """(index of the host, index of its port); ranks with equal values share the rate of the port."""
        return self.host_index[rank], self.interface_index[rank] if self.interface_index else 0

    def address_of(self, rank: int) -> str:
        """The numeric IP address of a rank."""
        return self.addresses[rank]

    def alternate_of(self, rank: int) -> str | None:
        """The address of the second path of a rank; None: it has none."""
        return (self.alternates[rank] or None) if self.alternates else None

    def alternate_interface_of(self, rank: int) -> Interface:
        """The port that has it."""
        interfaces = self._interfaces(self.host_of(rank))
        return interfaces[(self.port_of(rank)[1] + 1) % len(interfaces)]

    def rate_bps(self, rank: int) -> int | None:
        """Rate of the port of a rank, bit/s, shared by all ranks at that port; None if not specified."""
        return self.interface_of(rank).rate_bps

    @staticmethod
    def _interfaces(host: Host) -> Sequence[Interface]:
        return host.interfaces or (Interface(_ONE_PORT, host.rate_bps),)


def joined(topologies: Sequence[Topology]) -> Topology:
    """The same hosts with the endpoints of several jobs: all that uses an address. Storage endpoints count as ranks."""
    first = topologies[0]
    if len(topologies) == 1:
        return first
    return replace(
        first,
        host_index=[index for one in topologies for index in one.host_index],
        addresses=[address for one in topologies for address in one.addresses],
        interface_index=[index for one in topologies for index in one.interface_index],
        alternates=[address for one in topologies for address in one.alternates or ("",) * one.endpoints],
        storage_endpoints=0,
    )


def default_loopback(ranks: int, *, block: int = 0) -> Topology:
    """One host without set-up: every rank has its own address in 127.0.0.0/8, and the port has no rate.

    Args:
        ranks: number of ranks.
        block: which 65,536 addresses to use, modulo LOOPBACK_BLOCKS, so that concurrent runs use different ones; more
            ranks than that always start at the first block.

    Raises:
        PlanError: there are more ranks than loopback addresses.
    """
    if int(LOOPBACK_BASE) + ranks > int(_LOOPBACK_END):
        raise PlanError(f"loopback has too few addresses for {ranks} ranks; give a --topology")
    first = LOOPBACK_BASE + (block % LOOPBACK_BLOCKS * _BLOCK if ranks < _BLOCK else 0)
    addresses = tuple(str(first + rank) for rank in range(ranks))
    return Topology("loopback", (Host("loopback"),), (0,) * ranks, addresses)
