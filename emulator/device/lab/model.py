"""The design of a lab: namespaces with their ports, and cables between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emulator.topology.network import End, Routing

HOST, BRIDGE, OVS, ROUTER = "host", "bridge", "ovs", "router"
SWITCHES = (BRIDGE, OVS, ROUTER)


@dataclass(frozen=True, slots=True)
class Shaping:
    """A token bucket at a port's egress.

    Attributes:
        rate_bps: rate on the wire, bit/s.
        burst_bytes: how much may pass at once after a pause.
        limit_bytes: depth of the queue; it drops the rest.
        overhead_bytes: counted per piece in addition to header and payload; for a frame: FCS, preamble and gap.
        cut_bytes: longest piece that is counted as one; the kernel cuts longer GSO batches to frames first.
        bucket_bps: rate of the bytes that the bucket counts, bit/s; None: `rate_bps`.
    """

    rate_bps: int
    burst_bytes: int
    limit_bytes: int
    overhead_bytes: int
    cut_bytes: int
    bucket_bps: int | None = None


@dataclass(frozen=True, slots=True)
class LabPort:
    """One end of a cable.

    Attributes:
        name: in the topology.
        device: name of the network device in the namespace.
        peer: the other end of the cable.
        mtu: largest IP packet, bytes.
        addresses: with prefix length, set on the device; between routers with a routing protocol: `A peer B/32`.
        local: prefixes whose addresses all belong to the host, in addition to `addresses`.
        shaping: None if the link has no rate.
    """

    name: str
    device: str
    mac: str
    peer: End
    mtu: int
    addresses: Sequence[str] = ()
    local: Sequence[str] = ()
    shaping: Shaping | None = None


@dataclass(frozen=True, slots=True)
class Hop:
    """The next hop `address`, reached through `device`."""

    device: str
    address: str


@dataclass(frozen=True, slots=True)
class LabRoute:
    """The route of a prefix; several hops have equal cost.

    Attributes:
        source: the port of a host with several ports that the route is for; None: all ports.
        is_learned: a routing protocol finds it; otherwise the lab writes it.
    """

    prefix: str
    hops: Sequence[Hop]
    source: str | None = None
    is_learned: bool = False


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A static neighbour entry of a device, so that no measurement waits for ARP."""

    device: str
    address: str
    mac: str


@dataclass(frozen=True, slots=True)
class Forward:
    """A switch sends frames for `mac` out of `device`."""

    device: str
    mac: str


@dataclass(frozen=True, slots=True)
class Node:
    """A host or switch: one network namespace.

    Attributes:
        kind: host, bridge, ovs or router.
        namespace: name of the namespace, which contains the id of the lab.
        hash_seed: seed of a router's ECMP hash; 0 for other kinds.
    """

    name: str
    kind: str
    namespace: str
    ports: Sequence[LabPort]
    routes: Sequence[LabRoute] = ()
    neighbours: Sequence[Neighbour] = ()
    forwards: Sequence[Forward] = ()
    hash_seed: int = 0

    @property
    def is_host(self) -> bool:
        """Whether the node is a host of ranks."""
        return self.kind == HOST

    def port(self, name: str) -> LabPort:
        """The port of that name.

        Raises:
            KeyError: there is none.
        """
        for port in self.ports:
            if port.name == name:
                return port
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Design:
    """The design of a lab.

    Attributes:
        lab_id: part of all names of the lab.
        nodes: hosts first, in the topology's order.
        cables: pairs of ends.
        has_ipv6: whether any host has an IPv6 address; otherwise the kernel sends no IPv6 frames of its own.
        routing: the protocol that its routers run; None: none.
        notes: what the topology asks for and a lab does not provide.
    """

    lab_id: str
    nodes: Sequence[Node]
    cables: Sequence[tuple[End, End]]
    has_ipv6: bool = False
    notes: Sequence[str] = ()
    routing: Routing | None = None

    def node(self, name: str) -> Node:
        """The host or switch of that name.

        Raises:
            KeyError: there is none.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)
