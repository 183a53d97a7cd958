"""What a lab consists of, as data: namespaces with their ports, and cables between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emulator.topology.network import End

HOST, BRIDGE, OVS, ROUTER = "host", "bridge", "ovs", "router"
SWITCHES = (BRIDGE, OVS, ROUTER)


@dataclass(frozen=True, slots=True)
class Shaping:
    """A token bucket at a port's egress.

    Attributes:
        rate_bps: of the wire, bit/s.
        burst_bytes: what may pass at once after a pause.
        limit_bytes: depth of the queue; what comes beyond is dropped.
        overhead_bytes: per piece besides header and payload; of a frame: FCS, preamble and the gap to the next one.
        cut_bytes: longest piece that is counted as one; what the kernel hands over as one and is longer is cut to
            frames before.
        bucket_bps: rate of what is counted so, bit/s; None: `rate_bps`.
    """

    rate_bps: int
    burst_bytes: int
    limit_bytes: int
    overhead_bytes: int
    cut_bytes: int
    bucket_bps: int | None = None


@dataclass(frozen=True, slots=True)
class Port:
    """One end of a cable.

    Attributes:
        name: as the topology calls it.
        device: name of the network device in the namespace.
        peer: what the other end of the cable is.
        mtu: bytes of an IP packet.
        addresses: with prefix length, set on the device.
        local: prefixes whose addresses are all the host's own, beside `addresses`.
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
    """Out of `device` to whoever owns `address`."""

    device: str
    address: str


@dataclass(frozen=True, slots=True)
class LabRoute:
    """Where packets for a prefix go; several hops have equal cost.

    Attributes:
        source: a host's port that this holds for, where it has several; None = all.
    """

    prefix: str
    hops: Sequence[Hop]
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Who owns an address on the other side of a device: written down, so that no measurement waits for ARP."""

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
        namespace: its name, which holds the lab's id.
        hash_seed: of a router's equal-cost paths; 0 elsewhere.
    """

    name: str
    kind: str
    namespace: str
    ports: Sequence[Port]
    routes: Sequence[LabRoute] = ()
    neighbours: Sequence[Neighbour] = ()
    forwards: Sequence[Forward] = ()
    hash_seed: int = 0

    @property
    def is_host(self) -> bool:
        """Whether ranks live here."""
        return self.kind == HOST

    def port(self, name: str) -> Port:
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
    """A lab as it is wanted.

    Attributes:
        lab_id: in the name of everything.
        nodes: hosts first, in the topology's order.
        cables: pairs of ends.
        has_ipv6: whether any host has an IPv6 address; where none has, the kernel's own IPv6 frames are off.
        notes: what the topology has that a lab cannot give.
    """

    lab_id: str
    nodes: Sequence[Node]
    cables: Sequence[tuple[End, End]]
    has_ipv6: bool = False
    notes: Sequence[str] = ()

    def node(self, name: str) -> Node:
        """The host or switch of that name.

        Raises:
            KeyError: there is none.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)
