"""The switches, links and routes of a topology file, as a network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from emulator.topology.document import Document, KeyPath
from emulator.topology.file_format import LinkSection, RouteSection, SwitchSection, TopologyFile
from emulator.topology.hosts import HostEntry, common_rate_bps, read_rate_bps
from emulator.topology.network import End, Interface, Link, Network, Route, Switch
from emulator.units import parse_duration, parse_size


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
    return replace(network, routes=_routes(document, file.routes or (), network))


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


def _refuse_without_links(document: Document) -> None:
    for name in ("switches", "routes", "ecmp"):
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
