"""The network between hosts as a graph: switches, links, routes, and which part of it is tested.

It says nothing of how the graph is realised: namespaces, a rack, or only arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

ASSUMED_SWITCH = "network"
"""Name of the switch without limits that joins the hosts of a file that draws no links."""


class End(NamedTuple):
    """Where a link is plugged in: a host or switch, and its interface or port."""

    node: str
    port: str

    def __str__(self) -> str:
        return f"{self.node}:{self.port}"


@dataclass(frozen=True, slots=True)
class Interface:
    """A port of a host.

    Attributes:
        rate_bps: bit/s; None if not specified.
        mtu: bytes of an IP packet; None if not specified.
        addresses: numeric addresses that are written down; without `shared` one rank each.
        prefix: where ranks get their addresses from instead, as 127.1.0.0/16.
        shared: all ranks of the interface have its one address.
    """

    name: str
    rate_bps: int | None = None
    mtu: int | None = None
    addresses: Sequence[str] = ()
    prefix: str | None = None
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Switch:
    """What forwards: `kind` is bridge, ovs, router or physical, or assumed where the file draws no network.

    Attributes:
        queue_bytes: depth of each port's queue in a lab; None if not specified.
    """

    name: str
    kind: str = "bridge"
    queue_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A full-duplex cable.

    Attributes:
        rate_bps: bit/s in each direction; None if not specified.
        mtu: bytes of an IP packet; None if not specified.
        latency_ns: one way, ns; None if not specified.
    """

    ends: tuple[End, End]
    rate_bps: int | None = None
    mtu: int | None = None
    latency_ns: int | None = None

    def __str__(self) -> str:
        return f"{self.ends[0]} - {self.ends[1]}"

    def other(self, node: str) -> End:
        """The end that is not at `node`."""
        return self.ends[1] if self.ends[0].node == node else self.ends[0]


@dataclass(frozen=True, slots=True)
class Route:
    """At `switch`, traffic to `host` (to one of its interfaces, or all) goes to one of the neighbours `via`."""

    switch: str
    host: str
    via: Sequence[str]
    interface: str | None = None


@dataclass(frozen=True, slots=True)
class GnmiTarget:
    """A switch that tells its counters over gNMI.

    Attributes:
        device: its name in the topology.
        address: HOST:PORT.
        username_env, password_env: environment variables that hold them; None: none are asked for.
        insecure: no TLS.
        ca: file of the authority its certificate is of, PEM; None: the host's own.
    """

    device: str
    address: str
    username_env: str | None = None
    password_env: str | None = None
    insecure: bool = False
    ca: str | None = None


@dataclass(frozen=True, slots=True)
class Dut:
    """The device under test, as the file names it.

    Attributes:
        kind: nic, switch or fabric.
        nodes: hosts (of a NIC) and switches that belong to it.
        ports: its boundary: where the tester's links are plugged in.
        gnmi: who tells its counters.
    """

    kind: str
    vendor: str | None = None
    model: str | None = None
    firmware: str | None = None
    nodes: Sequence[str] = ()
    ports: Sequence[End] = ()
    gnmi: Sequence[GnmiTarget] = ()


@dataclass(frozen=True, slots=True)
class Network:
    """Hosts' interfaces, switches, and the links between them.

    Attributes:
        interfaces: host → its interfaces, in the order of the topology's hosts.
        routes: explicit ones, which go before equal-cost paths.
        ecmp_seed: of the hash that spreads flows over equal-cost paths.
        is_drawn: False if the file has no links, and a switch without limits is assumed.
    """

    interfaces: Mapping[str, Sequence[Interface]]
    switches: Sequence[Switch]
    links: Sequence[Link]
    routes: Sequence[Route] = ()
    ecmp_seed: int = 0
    is_drawn: bool = True

    def links_of(self, node: str) -> list[Link]:
        """Links plugged into a host or switch, in the file's order."""
        return [link for link in self.links if node in (link.ends[0].node, link.ends[1].node)]

    def switch(self, name: str) -> Switch:
        """The switch of that name.

        Raises:
            KeyError: there is none.
        """
        for switch in self.switches:
            if switch.name == name:
                return switch
        raise KeyError(name)


def assumed_network(interfaces: Mapping[str, Sequence[Interface]]) -> Network:
    """All interfaces at one switch without limits."""
    ports = [(host, port) for host, ports in interfaces.items() for port in ports]
    links = tuple(
        Link((End(host, port.name), End(ASSUMED_SWITCH, f"port{number}")), port.rate_bps, port.mtu)
        for number, (host, port) in enumerate(ports)
    )
    return Network(interfaces, (Switch(ASSUMED_SWITCH, "assumed"),), links, is_drawn=False)
