"""From a topology to the lab that realises it: namespaces, devices, addresses, routes, shaping.

The next hop of a packet is found from a port, through bridges, to the host or router that receives it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from itertools import count

from emulator.device.lab.model import HOST, ROUTER, SWITCHES, Design, Forward, Hop, LabPort, LabRoute, Neighbour, Node
from emulator.device.lab.shaping import shape
from emulator.errors import PlanError
from emulator.planner.network.ecmp import hash_seed
from emulator.planner.network.header_overhead import DEFAULT_MTU
from emulator.topology.model import Topology
from emulator.topology.network import End, Interface, Link, Network
from emulator.topology.paths import Paths


@dataclass(frozen=True, slots=True)
class RouteStep:
    """From `out`, a port of the current node, to `to`, a port of a host or router."""

    out: End
    to: End


class LabNextHops:
    """Next hops through a network; bridges are not hops.

    Args:
        network: its switches are bridges (of either kind) or routers.

    Raises:
        PlanError: bridges form a loop.
    """

    def __init__(self, network: Network) -> None:
        self._network, self._paths = network, Paths(network)
        self._bridges = {switch.name for switch in network.switches if switch.kind != ROUTER}
        self._links: dict[str, list[Link]] = {}
        for link in network.links:
            for end in link.ends:
                self._links.setdefault(end.node, []).append(link)
        self._refuse_loops()

    def from_host(self, source: End, destination: End) -> RouteStep | None:
        """From a host's interface towards another's; None if no path leads there."""
        link = next(link for link in self._links[source.node] if source in link.ends)
        to = self._landing(link.other(source.node), destination)
        return RouteStep(source, to) if to is not None else None

    def from_router(self, router: str, destination: End) -> list[RouteStep]:
        """From a router towards a host's interface: all hops of equal cost, or those of configured routes."""
        steps = []
        for link in self._paths.next_hops(router, destination.node, destination.port):
            to = self._landing(link.other(router), destination)
            if to is not None:
                steps.append(RouteStep(next(end for end in link.ends if end.node == router), to))
        return steps

    def behind(self, bridge: str) -> Iterator[RouteStep]:
        """Every port of a host or router that frames of a bridge can reach, and the port that leads there."""
        for link in self._links.get(bridge, []):
            out = link.ends[0] if link.ends[0].node == bridge else link.ends[1]
            for to in self._reached(link.other(bridge), link):
                yield RouteStep(out, to)

    def _landing(self, end: End, destination: End) -> End | None:
        while end.node in self._bridges:
            links = self._paths.next_hops(end.node, destination.node, destination.port)
            if not links:
                return None
            end = links[0].other(end.node)
        is_wrong_host = end.node in self._network.interfaces and end != destination
        return None if is_wrong_host else end

    def _reached(self, end: End, by: Link) -> Iterator[End]:
        if end.node not in self._bridges:
            yield end
            return
        for link in self._links[end.node]:
            if link is not by:
                yield from self._reached(link.other(end.node), link)

    def _refuse_loops(self) -> None:
        root = {name: name for name in self._bridges}
        for link in self._network.links:
            one, other = (end.node for end in link.ends)
            if one in root and other in root:
                one, other = _root(root, one), _root(root, other)
                if one == other:
                    raise PlanError(
                        f"{link} closes a loop of bridges, in which frames would circulate forever: use kind router"
                    )
                root[one] = other


def _root(root: dict[str, str], name: str) -> str:
    while root[name] != name:
        name = root[name]
    return name


PREFIX = "charkha"
_DEVICE = re.compile(r"(?!\.{1,2}$|lo$|all$|default$|br0$)[A-Za-z0-9_.-]{1,15}")
_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_ROUTER_V4, _ROUTER_V6 = int(IPv4Address("169.254.0.1")), int(IPv6Address("fe80::c4:0:1"))
_LEARNED_V6 = int(IPv6Address("fd63:6861:726b::1"))
"""Where routers tell each other of routes: as the next hop of IPv6 BGP takes only addresses of more than a link."""
_MOST_ROUTER_PORTS = 60_000


def namespace_name(lab_id: str, node: str) -> str:
    """The namespace of a host or switch of a lab."""
    return f"{PREFIX}-{lab_id}-{_NAME.sub('-', node)}"


def make_design(topology: Topology, lab_id: str) -> Design:
    """The lab of a topology.

    Raises:
        PlanError: the topology cannot be a lab: no links, a physical switch, loopback addresses, a loop of bridges.
    """
    network = topology.network
    _require_raisable(topology, network)
    return _Designer(network, lab_id).design()


def _require_raisable(topology: Topology, network: Network) -> None:
    if not network.is_drawn:
        raise PlanError(f"{topology.source}: a lab needs a network: add switches and links (docs/topologies.md)")
    for switch in network.switches:
        if switch.kind not in SWITCHES:
            raise PlanError(
                f"{topology.source}: switch {switch.name} is {switch.kind}: a lab has {', '.join(SWITCHES)}"
            )
    for host, interfaces in network.interfaces.items():
        for prefix in (prefix for interface in interfaces for prefix in prefixes_of(interface)):
            if ip_network(prefix).is_loopback:
                raise PlanError(
                    f"{topology.source}: host {host} has {prefix}, but loopback traffic never leaves a host"
                )
    _refuse_twins([*network.interfaces, *(switch.name for switch in network.switches)], topology)


def _refuse_twins(names: Sequence[str], topology: Topology) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(_NAME.sub("-", name), name)
        if other != name:
            raise PlanError(f"{topology.source}: {name!r} and {other!r} would get the same namespace: rename one")


def prefixes_of(interface: Interface) -> list[str]:
    """All addresses of a host's interface as prefixes."""
    return [interface.prefix] if interface.prefix else [str(ip_network(one)) for one in interface.addresses]


def first_address(prefix: str) -> str:
    """The first address of a prefix that a rank gets."""
    return str(next(iter(ip_network(prefix).hosts())))


class _Designer:
    def __init__(self, network: Network, lab_id: str) -> None:
        self._network, self._lab_id, self._next_hops = network, lab_id, LabNextHops(network)
        self._link = {end: link for link in network.links for end in link.ends}
        self._mac = {end: _mac(number) for number, end in enumerate(self._link)}
        self._interface = {
            End(host, interface.name): interface for host, ports in network.interfaces.items() for interface in ports
        }
        self._ends: dict[str, list[End]] = {}
        for end in self._link:
            self._ends.setdefault(end.node, []).append(end)
        self._device = {end: name for ends in self._ends.values() for end, name in _devices(ends)}
        self._queue_bytes = {switch.name: switch.queue_bytes for switch in network.switches}
        routers = [switch.name for switch in network.switches if switch.kind == ROUTER]
        self._seed = {name: hash_seed(network.ecmp_seed, number) for number, name in enumerate(routers)}
        self._router_ports = {end: n for n, end in enumerate(end for end in self._link if end.node in self._seed)}
        self._has_ipv6 = any(
            ip_network(prefix).version == 6 for one in self._interface.values() for prefix in prefixes_of(one)
        )
        if len(self._router_ports) > _MOST_ROUTER_PORTS:
            raise PlanError(f"{len(self._router_ports)} ports of routers need more addresses than a lab has")

    def design(self) -> Design:
        hosts = [self._host(name) for name in self._network.interfaces]
        switches = [self._switch(switch.name, switch.kind) for switch in self._network.switches]
        late = sum(link.latency_ns is not None for link in self._network.links)
        notes = (f"the latency of {late} links is ignored: a lab has no latency on its links",) if late else ()
        cables = [link.ends for link in self._network.links]
        return Design(
            self._lab_id,
            [*hosts, *switches],
            cables,
            has_ipv6=self._has_ipv6,
            notes=notes,
            routing=self._network.routing,
        )

    # --- nodes --------------------------------------------------------------------------------------------------

    def _host(self, name: str) -> Node:
        ends = [End(name, interface.name) for interface in self._network.interfaces[name]]
        routes: list[LabRoute] = []
        neighbours: dict[Neighbour, None] = {}
        for source in ends:
            for destination in self._interface:
                if destination.node == name:
                    continue
                step = self._next_hops.from_host(source, destination)
                if step is None:
                    continue
                routes += self._routes(destination, [step], source.port if len(ends) > 1 else None)
                neighbours |= self._neighbours(destination, [step])
        ports = [self._port(end, is_host=True) for end in ends]
        return Node(name, HOST, namespace_name(self._lab_id, name), ports, routes, list(neighbours))

    def _switch(self, name: str, kind: str) -> Node:
        ports = [self._port(end, is_host=False) for end in self._ends.get(name, [])]
        namespace = namespace_name(self._lab_id, name)
        if kind != ROUTER:
            return Node(
                name, kind, namespace, ports, forwards=[self._forward(step) for step in self._next_hops.behind(name)]
            )
        routes: list[LabRoute] = []
        neighbours: dict[Neighbour, None] = {}
        for destination in self._interface:
            steps = self._next_hops.from_router(name, destination)
            routes += self._routes(destination, steps, None) if steps else []
            neighbours |= self._neighbours(destination, steps)
        return Node(name, kind, namespace, ports, routes, list(neighbours), hash_seed=self._seed[name])

    def _port(self, end: End, *, is_host: bool) -> LabPort:
        link = self._link[end]
        mtu = link.mtu or DEFAULT_MTU
        return LabPort(
            name=end.port,
            device=self._device[end],
            mac=self._mac[end],
            peer=_other(link, end),
            mtu=mtu,
            addresses=self._own_addresses(end),
            local=_pool(self._interface[end]) if is_host else (),
            shaping=shape(link.rate_bps, mtu=mtu, is_host=is_host, queue_bytes=self._queue_bytes.get(end.node)),
        )

    def _forward(self, step: RouteStep) -> Forward:
        return Forward(self._device[step.out], self._mac[step.to])

    # --- addresses ----------------------------------------------------------------------------------------------

    def _own_addresses(self, end: End) -> list[str]:
        if end in self._router_ports:
            peer = _other(self._link[end], end)
            families = (False, True) if self._has_ipv6 else (False,)
            ends = [end, peer] if self._network.routing is not None and peer in self._router_ports else [end]
            found = [[self._router_address(one, is_v6=is_v6) for one in ends] for is_v6 in families]
            return [" peer ".join([*those[:-1], str(ip_network(those[-1]))]) for those in found]
        if end not in self._interface:
            return []
        interface = self._interface[end]
        addresses = [first_address(interface.prefix)] if interface.prefix else interface.addresses
        return [str(ip_network(one)) for one in addresses]

    def _router_address(self, end: End, *, is_v6: bool) -> str:
        number = self._router_ports[end]
        of_v6 = _ROUTER_V6 if self._network.routing is None else _LEARNED_V6
        return str(IPv6Address(of_v6 + number) if is_v6 else IPv4Address(_ROUTER_V4 + number))

    def _address_for(self, end: End, prefix: str) -> str:
        """An address of a port, of the family of the traffic that goes there."""
        is_v6 = ip_network(prefix).version == 6
        if end in self._router_ports:
            return self._router_address(end, is_v6=is_v6)
        own = (one.partition("/")[0] for one in self._own_addresses(end))
        return next(one for one in own if (ip_address(one).version == 6) == is_v6)

    def _routes(self, destination: End, steps: Sequence[RouteStep], source: str | None) -> Iterator[LabRoute]:
        for prefix in prefixes_of(self._interface[destination]):
            hops = [Hop(self._device[step.out], self._address_for(step.to, prefix)) for step in steps]
            yield LabRoute(prefix, hops, source, is_learned=any(map(self._is_learned, steps)))

    def _is_learned(self, step: RouteStep) -> bool:
        """Whether routers tell each other of a hop.

        Raises:
            PlanError: they are not the two ends of a link.
        """
        if self._network.routing is None or not {step.out, step.to} <= self._router_ports.keys():
            return False
        if step.to not in (link := self._link[step.out]).ends:
            raise PlanError(
                f"{link} leads to router {step.to.node} through a bridge: routers with a routing protocol"
                " need links of their own to each other"
            )
        return True

    def _neighbours(self, destination: End, steps: Sequence[RouteStep]) -> Mapping[Neighbour, None]:
        """As keys of a dict: many destinations have the same next hop."""
        return {
            Neighbour(self._device[step.out], self._address_for(step.to, prefix), self._mac[step.to]): None
            for prefix in prefixes_of(self._interface[destination])
            for step in steps
        }


def _pool(interface: Interface) -> list[str]:
    return [interface.prefix] if interface.prefix else []


def _other(link: Link, end: End) -> End:
    return link.ends[1] if link.ends[0] == end else link.ends[0]


def _mac(number: int) -> str:
    return "02:c4:" + ":".join(f"{byte:02x}" for byte in number.to_bytes(4, "big"))


def _devices(ends: Sequence[End]) -> Iterator[tuple[End, str]]:
    """Names of devices: the topology's where the kernel takes them, else numbers."""
    taken = {end.port for end in ends}
    for number, end in enumerate(ends):
        if _DEVICE.fullmatch(end.port):
            yield end, end.port
        else:
            name = next(name for n in count(number) if (name := f"port{n}") not in taken)
            taken.add(name)
            yield end, name
