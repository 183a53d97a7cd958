"""Where ranks live: hosts with ports, which rank has which address there, and the network between the hosts.

A topology is settled for a number of ranks: asking it never fails for a rank of the trace. What a file says before
ranks are known is in load.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from emulator.errors import PlanError
from emulator.topology.network import Dut, Interface, Network, assumed_network

LOOPBACK_BASE = IPv4Address("127.1.0.1")
"""First address of the default topology: past those that resolvers and hosts files like to use."""
_LOOPBACK_END = IPv4Address("127.255.255.255")
_BLOCK = 1 << 16
LOOPBACK_BLOCKS = 254
_ONE_PORT = "eth0"


@dataclass(frozen=True, slots=True)
class Host:
    """A machine with one or more ports to the network.

    Attributes:
        rate_bps: rate of each port, bit/s; None if not specified, or where its ports differ.
        interfaces: its ports; empty if the topology has no file: then it is one port.
    """

    name: str
    rate_bps: int | None = None
    interfaces: Sequence[Interface] = ()


@dataclass(frozen=True, slots=True)
class Topology:
    """Hosts, the place of every rank on them, and the network between them.

    Attributes:
        name: for people.
        hosts: some may have no rank.
        host_index: per rank, index into `hosts`.
        addresses: per rank, a numeric IP address.
        source: the file it came from, None if it was made.
        digest: SHA-256 of that file, in hex.
        interface_index: per rank, index into its host's `interfaces`; empty if each host has one port.
        drawn: the network as the file draws it; None if it draws none, see `network`.
        dut: the device under test; None if the file names none.
        agents: host → name of the agent that serves it; hosts that are not in it are served by local agents.
        transport: parameters that the command line overrides, `name` among them.
        notes: what the file of another tool has that has no counterpart here, for the user.
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

    @property
    def ranks(self) -> int:
        """How many ranks have a place."""
        return len(self.host_index)

    @property
    def network(self) -> Network:
        """The network that is drawn, else all hosts at one switch without limits."""
        return self.drawn or assumed_network({host.name: self._interfaces(host) for host in self.hosts})

    @property
    def link_mtu(self) -> int | None:
        """The smallest MTU of a link, bytes of an IP packet; None if not specified."""
        return min((link.mtu for link in self.network.links if link.mtu is not None), default=None)

    @property
    def is_ipv6(self) -> bool:
        """Whether any rank has an IPv6 address."""
        return any(":" in address for address in self.addresses)

    def host_of(self, rank: int) -> Host:
        """The host a rank lives on."""
        return self.hosts[self.host_index[rank]]

    def interface_of(self, rank: int) -> Interface:
        """The port a rank sends through."""
        return self._interfaces(self.host_of(rank))[self.interface_index[rank] if self.interface_index else 0]

    def port_of(self, rank: int) -> tuple[int, int]:
        """(index of the host, index of its port): ranks with the same share the port's rate."""
        return self.host_index[rank], self.interface_index[rank] if self.interface_index else 0

    def address_of(self, rank: int) -> str:
        """The numeric IP address a rank plays at."""
        return self.addresses[rank]

    def rate_bps(self, rank: int) -> int | None:
        """Rate of the port that the rank shares with all ranks at it, bit/s; None if not specified."""
        return self.interface_of(rank).rate_bps

    @staticmethod
    def _interfaces(host: Host) -> Sequence[Interface]:
        return host.interfaces or (Interface(_ONE_PORT, host.rate_bps),)


def default_loopback(ranks: int, *, block: int = 0) -> Topology:
    """One host that needs no set-up: every rank at its own address of 127.0.0.0/8, no port rate.

    Args:
        ranks: of the trace.
        block: which 65,536 addresses to take, modulo LOOPBACK_BLOCKS, so that runs at the same time keep apart; a world
            that does not fit one block begins with the first.

    Raises:
        PlanError: more ranks than loopback addresses.
    """
    if int(LOOPBACK_BASE) + ranks > int(_LOOPBACK_END):
        raise PlanError(f"{ranks} ranks are more than loopback has addresses for; give a --topology")
    first = LOOPBACK_BASE + (block % LOOPBACK_BLOCKS * _BLOCK if ranks < _BLOCK else 0)
    addresses = tuple(str(first + rank) for rank in range(ranks))
    return Topology("loopback", (Host("loopback"),), (0,) * ranks, addresses)
