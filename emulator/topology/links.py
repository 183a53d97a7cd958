"""What a topology file draws beside its hosts: switches, links, routes, the device under test, agents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from emulator.topology.document import Document, KeyPath
from emulator.topology.hosts import HostEntry, common_rate_bps, read_rate_bps
from emulator.topology.network import Dut, End, GnmiTarget, Interface, Link, Network, Route, Switch
from emulator.units import parse_duration, parse_size


def read_network(document: Document, entries: Sequence[HostEntry]) -> Network | None:
    """The network that a file draws; None if it has no links.

    Rates and MTUs are known to both a link and the interface it is plugged into, whichever of them says it.

    Raises:
        TopologyError: a name that does not exist or is taken, a port used twice, an interface without a link, rates
            that contradict each other.
    """
    value = document.value
    switches = _switches(document, entries)
    if "links" not in value:
        for name in ("switches", "routes", "ecmp"):
            if name in value:
                raise document.error("means nothing without links", (name,))
        return None
    ports = {End(entry.host.name, port.name): port for entry in entries for port in entry.host.interfaces}
    links = _Links(document, ports, {switch.name for switch in switches}).read()
    joined = {end: link for link in links for end in link.ends}
    interfaces = {
        entry.host.name: tuple(
            _plugged(port, joined[End(entry.host.name, port.name)]) for port in entry.host.interfaces
        )
        for entry in entries
    }
    seed = value.get("ecmp", {}).get("seed", 0)
    network = Network(interfaces, switches, links, ecmp_seed=seed)
    return replace(network, routes=_routes(document, network))


def with_interfaces(entries: Iterable[HostEntry], network: Network | None) -> list[HostEntry]:
    """The hosts with the interfaces as the network has them, rates of links included."""
    if network is None:
        return list(entries)
    found = []
    for entry in entries:
        ports = network.interfaces[entry.host.name]
        host = replace(entry.host, interfaces=ports, rate_bps=common_rate_bps(ports))
        found.append(replace(entry, host=host))
    return found


def read_dut(document: Document, entries: Sequence[HostEntry], network: Network | None) -> Dut | None:
    """The device under test. Where its ports are left out, they are those that lead from its nodes to others.

    Raises:
        TopologyError: a node or port that does not exist.
    """
    entry = document.value.get("dut")
    if entry is None:
        return None
    nodes = tuple(entry.get("nodes", ()))
    known = [each.host.name for each in entries] + [switch.name for switch in (network.switches if network else ())]
    for number, node in enumerate(nodes):
        _require(document, node, known, "node", ("dut", "nodes", number))
    ports = tuple(_end(text) for text in entry.get("ports", ()))
    plugged = {end for link in (network.links if network else ()) for end in link.ends}
    for number, port in enumerate(ports):
        if port not in plugged:
            raise document.error(f"no link is plugged into {port}", ("dut", "ports", number))
    facts = {name: entry.get(name) for name in ("vendor", "model", "firmware")}
    gnmi = tuple(GnmiTarget(**target) for target in entry.get("gnmi", ()))
    for number, target in enumerate(gnmi):
        _require(document, target.device, known, "node", ("dut", "gnmi", number, "device"))
    return Dut(entry["kind"], nodes=nodes, ports=ports or _boundary(nodes, network), gnmi=gnmi, **facts)


def read_agents(document: Document, entries: Sequence[HostEntry]) -> dict[str, str]:
    """Host → name of its agent.

    Raises:
        TopologyError: no such host.
    """
    agents: dict[str, str] = document.value.get("agents", {})
    for host in agents:
        _require(document, host, [entry.host.name for entry in entries], "host", ("agents", host))
    return agents


def _boundary(nodes: Sequence[str], network: Network | None) -> tuple[End, ...]:
    links = network.links if network else ()
    sides = [(here, there) for link in links for here, there in (link.ends, link.ends[::-1])]
    return tuple(here for here, there in sides if here.node in nodes and there.node not in nodes)


def _switches(document: Document, entries: Sequence[HostEntry]) -> tuple[Switch, ...]:
    taken = {entry.host.name for entry in entries}
    for number, entry in enumerate(document.value.get("switches", ())):
        if entry["name"] in taken:
            raise document.error(f"a node named {entry['name']!r} is there already", ("switches", number, "name"))
        taken.add(entry["name"])
    return tuple(_switch(document, entry, n) for n, entry in enumerate(document.value.get("switches", ())))


def _switch(document: Document, entry: Mapping[str, Any], number: int) -> Switch:
    said = {name: value for name, value in entry.items() if name != "queue"}
    if "queue" not in entry:
        return Switch(**said)
    try:
        return Switch(**said, queue_bytes=parse_size(entry["queue"]))
    except ValueError as error:
        raise document.error(str(error), ("switches", number, "queue")) from error


class _Links:
    """Reads links and sees to it that every end exists and is used once, and every interface has a link."""

    def __init__(self, document: Document, ports: Mapping[End, Interface], switches: set[str]) -> None:
        self._document, self._ports, self._switches = document, ports, switches
        self._hosts = {end.node for end in ports}
        self._used: set[End] = set()

    def read(self) -> tuple[Link, ...]:
        links = tuple(self._link(entry, ("links", n)) for n, entry in enumerate(self._document.value["links"]))
        loose = next((end for end in self._ports if end not in self._used), None)
        if loose is not None:
            raise self._document.error(f"no link is plugged into {loose}", ("links",))
        return links

    def _link(self, entry: Mapping[str, Any], key: KeyPath) -> Link:
        one, other = (self._plug(text, (*key, "endpoints", n)) for n, text in enumerate(entry["endpoints"]))
        if one.node == other.node:
            raise self._document.error(f"joins {one.node} with itself", key)
        rate_bps = read_rate_bps(self._document, entry, key)
        own = [self._ports[end] for end in (one, other) if end in self._ports]
        return Link(
            (one, other),
            self._agreed("rate", rate_bps, [port.rate_bps for port in own], key),
            self._agreed("mtu", entry.get("mtu"), [port.mtu for port in own], key),
            _latency_ns(self._document, entry, key),
        )

    def _plug(self, text: str, key: KeyPath) -> End:
        end = _end(text)
        if end.node in self._hosts and end not in self._ports:
            raise self._document.error(f"host {end.node} has no interface {end.port!r}", key)
        _require(self._document, end.node, [*self._hosts, *self._switches], "node", key)
        if end in self._used:
            raise self._document.error(f"a link is plugged into {end} already", key)
        self._used.add(end)
        return end

    def _agreed(self, name: str, own: int | None, ports: Sequence[int | None], key: KeyPath) -> int | None:
        """What link and interfaces say, which must be one thing."""
        said = {value for value in (own, *ports) if value is not None}
        if len(said) > 1:
            shown = " and ".join(str(value) for value in sorted(said))
            raise self._document.error(f"the link and its interfaces differ in their {name}: {shown}", key)
        return said.pop() if said else None


def _plugged(port: Interface, link: Link) -> Interface:
    return replace(port, rate_bps=link.rate_bps, mtu=link.mtu)


def _routes(document: Document, network: Network) -> tuple[Route, ...]:
    neighbours: dict[str, set[str]] = {switch.name: set() for switch in network.switches}
    for link in network.links:
        for end, other in (link.ends, link.ends[::-1]):
            if end.node in neighbours:
                neighbours[end.node].add(other.node)
    listed = document.value.get("routes", ())
    return tuple(_route(document, entry, ("routes", n), network, neighbours) for n, entry in enumerate(listed))


def _route(
    document: Document,
    entry: Mapping[str, Any],
    key: KeyPath,
    network: Network,
    neighbours: Mapping[str, set[str]],
) -> Route:
    _require(document, entry["at"], neighbours, "switch", (*key, "at"))
    host, interface = entry["to"], None
    if host not in network.interfaces and ":" in host:
        host, interface = _end(host)
    _require(document, host, network.interfaces, "host", (*key, "to"))
    if interface is not None and interface not in [port.name for port in network.interfaces[host]]:
        raise document.error(f"host {host} has no interface {interface!r}", (*key, "to"))
    via = (entry["via"],) if isinstance(entry["via"], str) else tuple(entry["via"])
    for node in via:
        _require(document, node, neighbours[entry["at"]], f"neighbour of {entry['at']}", (*key, "via"))
    return Route(entry["at"], host, via, interface)


def _latency_ns(document: Document, entry: Mapping[str, Any], key: KeyPath) -> int | None:
    if "latency" not in entry:
        return None
    try:
        return parse_duration(entry["latency"])
    except ValueError as error:
        raise document.error(str(error), (*key, "latency")) from error


def _end(text: str) -> End:
    node, _, port = text.rpartition(":")
    return End(node, port)


def _require(document: Document, name: str, known: Iterable[str], what: str, key: KeyPath) -> None:
    if name not in known:
        shown = ", ".join(sorted(known)[:12])
        raise document.error(f"there is no {what} {name!r}; there are {shown}", key)
