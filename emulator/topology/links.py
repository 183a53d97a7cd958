"""The switches, links and routes of a topology file, as a network.

A regular leaf-spine network of any size is built from the few numbers under `fabric:`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_network
from itertools import islice

from emulator.topology.document import Document, KeyPath
from emulator.topology.file_format import (
    FabricSection,
    LinkSection,
    RouteSection,
    RoutingSection,
    SwitchSection,
    TopologyFile,
)
from emulator.topology.hosts import HostEntry, common_rate_bps, read_domain, read_rate_bps
from emulator.topology.model import Host
from emulator.topology.network import Bfd, End, Interface, Link, Network, Route, Routing, Switch
from emulator.topology.safety import Network as AddressRange
from emulator.topology.safety import is_safe, numeric_prefix, unsafe_problem
from emulator.units import NS_PER_MS, parse_duration, parse_size

_BFD_MS = range(10, 60_001)


def read_network(document: Document, file: TopologyFile, entries: Sequence[HostEntry]) -> Network | None:
    """The network between the hosts; None if the file has no links.

    A rate or MTU that is given at a link or at its interface applies to both.

    Raises:
        TopologyError: a name does not exist or is used twice, a port has two links, an interface has none, or a link
            and its interfaces contradict each other.
    """
    switches = _switches(document, file.switches or (), entries)
    if file.links is None:
        _refuse_without_links(document)
        return None
    ports = {End(entry.host.name, port.name): port for entry in entries for port in entry.host.interfaces}
    links = _LinkReader(document, ports, {switch.name for switch in switches}).read(file.links)
    link_at = {end: link for link in links for end in link.ends}
    interfaces = {
        entry.host.name: tuple(
            _with_facts_of(link_at[End(entry.host.name, port.name)], port) for port in entry.host.interfaces
        )
        for entry in entries
    }
    network = Network(interfaces, switches, links, ecmp_seed=file.ecmp.seed)
    network = replace(network, routes=_routes(document, file.routes or (), network))
    return with_routing(document, file.routing, network)


def with_link_facts(entries: Iterable[HostEntry], network: Network | None) -> list[HostEntry]:
    """The hosts, with rate and MTU of each link at the interface it is plugged into."""
    if network is None:
        return list(entries)
    found = []
    for entry in entries:
        ports = network.interfaces[entry.host.name]
        host = replace(entry.host, interfaces=ports, rate_bps=common_rate_bps(ports))
        found.append(replace(entry, host=host))
    return found


def read_end(document: Document, text: str, key: KeyPath) -> End:
    """An end of a link, as `node:port`.

    Raises:
        TopologyError: it is not written so.
    """
    node, _, port = text.rpartition(":")
    if not node or not port:
        raise document.error(f"{text!r} is not an end of a link: write host:interface or switch:port", key)
    return End(node, port)


def with_routing(document: Document, section: RoutingSection | None, network: Network) -> Network:
    """The network, with the routing protocol of its routers.

    Raises:
        TopologyError: there are no routers, explicit routes, or BFD has no interval of whole milliseconds.
    """
    if section is None:
        return network
    if not any(switch.kind == "router" for switch in network.switches):
        raise document.error("has no effect: no switch is of kind router", ("routing",))
    if network.routes:
        raise document.error("routers find their routes by the routing protocol: delete these, or routing", ("routes",))
    if section.bfd is None:
        return replace(network, routing=Routing(section.protocol))
    key = ("routing", "bfd", "interval")
    interval_ns = document.parse(parse_duration, section.bfd.interval, key) or 0
    interval_ms, rest = divmod(interval_ns, NS_PER_MS)
    if rest or interval_ms not in _BFD_MS:
        raise document.error(f"{section.bfd.interval!r}: BFD takes whole milliseconds, from 10ms to 60s", key)
    return replace(network, routing=Routing(section.protocol, Bfd(interval_ns, section.bfd.multiplier)))


def _refuse_without_links(document: Document) -> None:
    for name in ("switches", "routes", "ecmp", "routing"):
        if name in document.value:
            raise document.error("has no effect without links: add links, or delete it", (name,))


def _switches(
    document: Document, sections: Sequence[SwitchSection], entries: Sequence[HostEntry]
) -> tuple[Switch, ...]:
    taken = {entry.host.name for entry in entries}
    switches = []
    for number, section in enumerate(sections):
        if section.name in taken:
            raise document.error(f"there is already a node named {section.name!r}", ("switches", number, "name"))
        taken.add(section.name)
        queue_bytes = document.parse(parse_size, section.queue, ("switches", number, "queue"))
        switches.append(Switch(section.name, section.kind, queue_bytes))
    return tuple(switches)


class _LinkReader:
    """Reads links. Every end must exist and have one link only; every interface of a host must have one."""

    def __init__(self, document: Document, ports: Mapping[End, Interface], switches: set[str]) -> None:
        self._document, self._ports = document, ports
        self._hosts = {end.node for end in ports}
        self._nodes = self._hosts | switches
        self._used: set[End] = set()

    def read(self, sections: Sequence[LinkSection]) -> tuple[Link, ...]:
        links = tuple(self._link(section, ("links", number)) for number, section in enumerate(sections))
        unused = next((end for end in self._ports if end not in self._used), None)
        if unused is not None:
            raise self._document.error(f"no link is connected to {unused}", ("links",))
        return links

    def _link(self, section: LinkSection, key: KeyPath) -> Link:
        one, other = (self._plug(text, (*key, "endpoints", n)) for n, text in enumerate(section.endpoints))
        if one.node == other.node:
            raise self._document.error(f"connects {one.node} to itself", key)
        rate_bps = read_rate_bps(self._document, section.rate, (*key, "rate"))
        own = [self._ports[end] for end in (one, other) if end in self._ports]
        return Link(
            (one, other),
            self._agreed("rate", rate_bps, [port.rate_bps for port in own], key),
            self._agreed("mtu", section.mtu, [port.mtu for port in own], key),
            self._document.parse(parse_duration, section.latency, (*key, "latency")),
        )

    def _plug(self, text: str, key: KeyPath) -> End:
        end = read_end(self._document, text, key)
        if end.node in self._hosts and end not in self._ports:
            raise self._document.error(f"host {end.node} has no interface {end.port!r}", key)
        self._document.require(end.node, self._nodes, "node", key)
        if end in self._used:
            raise self._document.error(f"{end} already has a link", key)
        self._used.add(end)
        return end

    def _agreed(self, name: str, own: int | None, ports: Sequence[int | None], key: KeyPath) -> int | None:
        """The value given at the link or at its interfaces; where there are several they must be equal."""
        values = {value for value in (own, *ports) if value is not None}
        if len(values) > 1:
            listed = " and ".join(str(value) for value in sorted(values))
            raise self._document.error(f"the link and its interfaces have different values of {name}: {listed}", key)
        return values.pop() if values else None


def _with_facts_of(link: Link, port: Interface) -> Interface:
    return replace(port, rate_bps=link.rate_bps, mtu=link.mtu)


def _routes(document: Document, sections: Sequence[RouteSection], network: Network) -> tuple[Route, ...]:
    neighbours: dict[str, set[str]] = {switch.name: set() for switch in network.switches}
    for link in network.links:
        for end, other in (link.ends, link.ends[::-1]):
            if end.node in neighbours:
                neighbours[end.node].add(other.node)
    return tuple(
        _route(document, section, ("routes", number), network, neighbours) for number, section in enumerate(sections)
    )


def _route(
    document: Document, section: RouteSection, key: KeyPath, network: Network, neighbours: Mapping[str, set[str]]
) -> Route:
    document.require(section.at, neighbours, "switch", (*key, "at"))
    host, interface = section.to, None
    if host not in network.interfaces and ":" in host:
        host, interface = read_end(document, host, (*key, "to"))
    document.require(host, network.interfaces, "host", (*key, "to"))
    if interface is not None and interface not in [port.name for port in network.interfaces[host]]:
        raise document.error(f"host {host} has no interface {interface!r}", (*key, "to"))
    via = (section.via,) if isinstance(section.via, str) else section.via
    for node in via:
        document.require(node, neighbours[section.at], f"neighbour of {section.at}", (*key, "via"))
    return Route(section.at, host, via, interface)


@dataclass(frozen=True, slots=True)
class LeafSpine:
    """Hosts connected to leaves, and one link from every leaf to every spine.

    Attributes:
        hosts_per_leaf: hosts of a leaf; with `rails`, hosts of a pod, which has a leaf for each interface.
        interfaces: of each host; all at one leaf, or with `rails` interface i at leaf i of the pod.
        rate_bps, uplink_bps: of a link from host to leaf, and from leaf to spine.
    """

    leaves: int
    spines: int
    hosts_per_leaf: int
    interfaces: int
    rails: bool
    rate_bps: int | None
    uplink_bps: int | None
    mtu: int | None
    kind: str

    @property
    def hosts(self) -> int:
        """Number of hosts."""
        return self.leaves * self.hosts_per_leaf // (self.interfaces if self.rails else 1)

    def leaf_of(self, host: int, interface: int) -> int:
        """Number of the leaf that an interface is connected to."""
        group = host // self.hosts_per_leaf
        return group * self.interfaces + interface if self.rails else group


def build_leaf_spine(
    document: Document, section: FabricSection, *, allowed: Sequence[AddressRange], ecmp_seed: int
) -> tuple[list[HostEntry], Network]:
    """Hosts h0, h1, …, leaves leaf0, …, spines spine0, …; every interface gets the next address of the prefix.

    Raises:
        TopologyError: the prefix is too small or not safe to send to, or the leaves do not form whole pods.
    """
    fabric = _fabric(document, section)
    addresses = _addresses(document, section.addresses, fabric, allowed)
    interfaces = {f"h{host}": tuple(_interfaces(fabric, addresses)) for host in range(fabric.hosts)}
    switches = [Switch(f"leaf{leaf}", fabric.kind) for leaf in range(fabric.leaves)]
    switches += [Switch(f"spine{spine}", fabric.kind) for spine in range(fabric.spines)]
    links = (*_host_links(fabric), *_uplinks(fabric))
    domain = read_domain(document, section.domain, ("fabric", "domain"))
    entries = [HostEntry(Host(name, fabric.rate_bps, ports, domain=domain)) for name, ports in interfaces.items()]
    return entries, Network(interfaces, tuple(switches), links, ecmp_seed=ecmp_seed)


def _fabric(document: Document, section: FabricSection) -> LeafSpine:
    rate_bps = read_rate_bps(document, section.rate, ("fabric", "rate"))
    fabric = LeafSpine(
        leaves=section.leaves,
        spines=section.spines,
        hosts_per_leaf=section.hosts_per_leaf,
        interfaces=section.interfaces,
        rails=section.rails,
        rate_bps=rate_bps,
        uplink_bps=read_rate_bps(document, section.uplink_rate, ("fabric", "uplink_rate")) or rate_bps,
        mtu=section.mtu,
        kind=section.kind,
    )
    if fabric.rails and fabric.leaves % fabric.interfaces:
        problem = f"{fabric.leaves} leaves cannot form pods of {fabric.interfaces}, one leaf per host interface"
        raise document.error(problem, ("fabric", "leaves"))
    return fabric


def _addresses(document: Document, text: str, fabric: LeafSpine, allowed: Sequence[AddressRange]) -> Iterator[str]:
    key = ("fabric", "addresses")
    try:
        prefix = ip_network(numeric_prefix(text))
    except ValueError as error:
        raise document.error(f"is not a prefix ({error}); write one such as 10.0.0.0/8", key) from error
    if not is_safe(prefix, allowed):
        raise document.error(unsafe_problem(prefix), key)
    needed = fabric.hosts * fabric.interfaces
    if prefix.num_addresses - 2 < needed:
        raise document.error(f"{prefix} has fewer than {needed} addresses; give a larger prefix: 10.0.0.0/8", key)
    return (str(address) for address in islice(prefix.hosts(), needed))


def _interfaces(fabric: LeafSpine, addresses: Iterator[str]) -> Iterator[Interface]:
    for number in range(fabric.interfaces):
        yield Interface(f"eth{number}", fabric.rate_bps, fabric.mtu, (next(addresses),), shared=True)


def _host_links(fabric: LeafSpine) -> Iterator[Link]:
    for host in range(fabric.hosts):
        for number in range(fabric.interfaces):
            leaf = End(f"leaf{fabric.leaf_of(host, number)}", f"h{host}.{number}")
            yield Link((End(f"h{host}", f"eth{number}"), leaf), fabric.rate_bps, fabric.mtu)


def _uplinks(fabric: LeafSpine) -> Iterator[Link]:
    for leaf in range(fabric.leaves):
        for spine in range(fabric.spines):
            ends = End(f"leaf{leaf}", f"up{spine}"), End(f"spine{spine}", f"down{leaf}")
            yield Link(ends, fabric.uplink_bps, fabric.mtu)
