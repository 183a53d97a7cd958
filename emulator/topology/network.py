"""The network between hosts as a graph: switches, links, routes, and the device under test.

The graph is independent of how it is realised: as namespaces, in a rack, or only in calculations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

ASSUMED_SWITCH = "network"
"""Name of the switch without limits that connects the hosts of a file without links."""


class End(NamedTuple):
    """An end of a link: a host or switch, and its interface or port."""

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
        addresses: numeric addresses, one rank each unless `shared`.
        prefix: in place of `addresses`: the prefix that ranks get their addresses from, such as 127.1.0.0/16.
        shared: all ranks at the interface use its one address.
    """

    name: str
    rate_bps: int | None = None
    mtu: int | None = None
    addresses: Sequence[str] = ()
    prefix: str | None = None
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch or router.

    Attributes:
        kind: bridge, ovs, router or physical; assumed if the file has no links.
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
        """The end opposite `node`."""
        return self.ends[1] if self.ends[0].node == node else self.ends[0]


@dataclass(frozen=True, slots=True)
class Route:
    """An explicit route: at `switch`, traffic to `host` goes to one of the neighbours `via`.

    Attributes:
        interface: the host's interface that the route is for; None: all of them.
    """

    switch: str
    host: str
    via: Sequence[str]
    interface: str | None = None


ON_CHANGE = "on_change"


@dataclass(frozen=True, slots=True)
class Bfd:
    """Bidirectional Forwarding Detection (RFC 5880) on every link between routers.

    Attributes:
        interval_ns: between two packets, ns; whole milliseconds.
        multiplier: after so many intervals without a packet the link is down.
    """

    interval_ns: int
    multiplier: int


@dataclass(frozen=True, slots=True)
class Routing:
    """A routing protocol between the routers of a lab.

    Attributes:
        protocol: bgp.
        bfd: None: a link is down when its carrier is, or the protocol's own timer expires.
    """

    protocol: str
    bfd: Bfd | None = None


@dataclass(frozen=True, slots=True)
class GnmiTarget:
    """A switch that reports its counters over gNMI.

    Attributes:
        device: its name in the topology.
        address: HOST:PORT.
        username_env, password_env: environment variables with the credentials; None: no credentials.
        insecure: no TLS.
        ca: PEM file of the authority that signed its certificate; None: the authorities that the host trusts.
        queues: it streams the depth of its queues, and what its ports discard, so often (`20ms`), or `on_change`; None:
            they are not read.
    """

    device: str
    address: str
    username_env: str | None = None
    password_env: str | None = None
    insecure: bool = False
    ca: str | None = None
    queues: str | None = None


@dataclass(frozen=True, slots=True)
class Dut:
    """The device under test.

    Attributes:
        kind: nic, switch or fabric.
        nodes: switches that belong to it; for a NIC, the hosts it is in.
        ports: its boundary: the ports that the links of the tester are plugged into.
        gnmi: switches that report its counters.
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
        routes: explicit routes, which take precedence over equal-cost paths.
        ecmp_seed: seed of the hash that spreads flows over equal-cost paths.
        routing: how the routers of a lab find their routes; None: the lab writes them.
        is_drawn: False if the file has no links and one switch without limits is assumed.
    """

    interfaces: Mapping[str, Sequence[Interface]]
    switches: Sequence[Switch]
    links: Sequence[Link]
    routes: Sequence[Route] = ()
    ecmp_seed: int = 0
    is_drawn: bool = True
    routing: Routing | None = None

    def switch(self, name: str) -> Switch:
        """The switch of that name.

        Raises:
            KeyError: there is no such switch.
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
