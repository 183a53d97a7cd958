"""InfraGraph files (version 3): devices with components, instances of devices, edges between their components.

Instances with an xpu or a NIC become hosts, all others switches. Annotations say which host a rank is on, and which
address an interface has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_interface
from itertools import product
from typing import Any, TypeAlias

from msgspec import Struct

from emulator.annexes.topologies.imported import ImportedTopology
from emulator.schema import SchemaProblem, decode
from emulator.topology.document import Document, KeyPath
from emulator.units import digits, parse_duration, parse_rate

KEY = "annotations"
Selected: TypeAlias = tuple[str, str | None]
"""A name and what is in brackets behind it, which selects some of its copies; None: all."""
_NODE_PART = re.compile(r"([\w-]+)(?:\[([-\d:]*)\]|\.(\d+)(?![\w-]))?\.?")
"""Of the name of a node: `xpu`, `xpu[0:2]` or `xpu.0`."""
_OF_THE_GRAPH = {"type", "instance", "instance_idx", "device", "composed_device", "link", "bandwidth", "latency"}
"""Attributes that InfraGraph itself gives to nodes and edges: the infrastructure says the same."""


class Attribute(Struct, frozen=True, kw_only=True):
    """What is said of a node."""

    attribute: str
    value: str | int | float | bool = ""


class AnnotatedNode(Struct, frozen=True, kw_only=True):
    """A node, or several, with attributes."""

    name: str
    attributes: tuple[Attribute, ...] = ()

    def path(self) -> list[Selected]:
        """The instance and components inside it that `host.0.xpu.1`, `host[0:2]xpu[1]` or `host.0` select.

        Raises:
            ValueError: the name is none of these.
        """
        parts = list(_NODE_PART.finditer(self.name))
        if not parts or "".join(part[0] for part in parts) != self.name:
            raise ValueError(f"{self.name!r} is not a node: write host.0.xpu.1 or host[0:2]xpu[1]")
        return [(part[1], part[3] if part[2] is None else part[2]) for part in parts]


class _Other(Struct, frozen=True, kw_only=True):
    """An edge or a link."""

    attributes: tuple[Attribute, ...] = ()


class Annotations(Struct, frozen=True, kw_only=True):
    """All annotations of a graph."""

    nodes: tuple[AnnotatedNode, ...] | None = None
    edges: tuple[_Other, ...] | None = None
    links: tuple[_Other, ...] | None = None
    graph: tuple[Attribute, ...] | None = None

    def ignored(self, *used: str) -> list[str]:
        """Names of the attributes that are not used and that the infrastructure does not imply, in order."""
        return list(dict.fromkeys(one for one in self._names(used) if one not in _OF_THE_GRAPH))

    def _names(self, used: tuple[str, ...]) -> Iterator[str]:
        for node in self.nodes or ():
            yield from (one.attribute for one in node.attributes if one.attribute not in used)
        for other in (*(self.edges or ()), *(self.links or ())):
            yield from (one.attribute for one in other.attributes)
        yield from (one.attribute for one in self.graph or ())


def read_annotations(document: Document, value: Mapping[str, Any]) -> Annotations:
    """The annotations of a document; none if it has none.

    Raises:
        TopologyError: they have another shape; the error names the line and the key.
    """
    try:
        return decode(value.get(KEY) or {}, Annotations)
    except SchemaProblem as problem:
        raise document.error(problem.problem, (KEY, *problem.path)) from problem


_COMPONENT_PART = re.compile(r"([\w.-]+?)(?:\[([-\d:]*)\])?")
_GIGABITS = {"gigabits_per_second": 1, "gigabytes_per_second": 8}
_ENDS_OF_TRAFFIC = ("xpu", "nic")
MOST_NODES = 200_000


def is_infragraph(value: Any) -> bool:
    """Whether this is the content of an InfraGraph file."""
    return isinstance(value, Mapping) and ("infrastructure" in value or "instances" in value)


def read_infragraph(document: Document) -> ImportedTopology:
    """Hosts, switches and links of an InfraGraph.

    Raises:
        TopologyError: something that an edge or an annotation refers to is missing, a rank or an address is wrong, or
            the file follows an older draft.
    """
    return _Reader(document).read()


class _Reader:
    """Reads one file."""

    def __init__(self, document: Document) -> None:
        self._document, self._value = document, document.value
        self._at: KeyPath = ()
        if "infrastructure" in self._value:
            self._value, self._at = self._value["infrastructure"], ("infrastructure",)
            if not isinstance(self._value, Mapping):
                raise document.error("is not a mapping with devices, instances and edges", self._at)
        self._check_draft()
        self._devices = {device["name"]: device for device in self._listed("devices")}
        self._instances = {instance["name"]: instance for instance in self._listed("instances")}
        self._links = {link["name"]: link for link in self._listed("links")}
        self._imported = ImportedTopology(str(self._value.get("name", document.path.stem)))

    def read(self) -> ImportedTopology:
        for number, instance in enumerate(self._listed("instances")):
            self._add_instance(instance, (*self._at, "instances", number))
        for number, edge in enumerate(self._listed("edges")):
            self._add_edge(edge, (*self._at, "edges", number))
        if self._at:
            self._annotate(read_annotations(self._document, self._document.value))
        return self._imported

    def _check_draft(self) -> None:
        devices = self._value.get("devices") or []
        if any("connections" in part for part in (self._value, *devices)):
            raise self._document.error(
                "uses an older InfraGraph draft: convert it to version 3, with devices, instances and edges"
            )
        for name in ("devices", "instances", "edges"):
            if not isinstance(self._value.get(name), list):
                raise self._document.error(f"is an InfraGraph without a list of {name}")

    def _listed(self, name: str) -> Sequence[Mapping[str, Any]]:
        items = self._value.get(name) or []
        for number, item in enumerate(items):
            if not isinstance(item, Mapping) or (name != "edges" and not isinstance(item.get("name"), str)):
                raise self._document.error("is not an InfraGraph entry with a name", (*self._at, name, number))
        found: Sequence[Mapping[str, Any]] = items
        return found

    def _add_instance(self, instance: Mapping[str, Any], key: KeyPath) -> None:
        name, copies = instance["name"], self._count(instance, key)
        device = self._device(str(instance.get("device")), (*key, "device"))
        kinds = dict(self._kinds(device, key, depth=0))
        domain = self._domain(device, key)
        for index in range(copies):
            if any(kinds.get(kind) for kind in _ENDS_OF_TRAFFIC):
                self._imported.hosts[f"{name}{index}"] = {}
                self._imported.slots[f"{name}{index}"] = kinds.get("xpu", 0)
                if domain:
                    self._imported.domains[f"{name}{index}"] = domain
            else:
                self._imported.switches[f"{name}{index}"] = "router"

    def _kinds(self, device: Mapping[str, Any], key: KeyPath, *, depth: int) -> Iterator[tuple[str, int]]:
        """(kind of component, count), including devices nested in the device."""
        totals: dict[str, int] = {}
        for component in device.get("components") or []:
            number = self._count(component, key)
            kind = str(component.get("choice"))
            nested = self._devices.get(str(component.get("name"))) if kind == "device" and depth < 8 else None
            inside = dict(self._kinds(nested, key, depth=depth + 1)) if nested else {kind: 1}
            for each, amount in inside.items():
                totals[each] = totals.get(each, 0) + number * amount
        yield from totals.items()

    def _domain(self, device: Mapping[str, Any], key: KeyPath) -> dict[str, str]:
        """What connects the xpus of a device: the rate of each, and the latency; empty if that is not known."""
        links = {link.get("name"): link for link in device.get("links") or []}
        rate_bps, latencies = 0, ["0ns"]
        for switches, edge in self._edges_of_xpus(device, key):
            facts = self._facts(str(edge.get("link")), links)
            if "rate" not in facts:
                what = f"link {edge.get('link')} between xpus of device {device['name']}"
                self._note(f"{what} has no bit rate: its hosts have no scale-up domain")
                return {}
            rate_bps += parse_rate(facts["rate"]) * (switches if edge.get("scheme") == "many2many" else 1)
            latencies.append(facts.get("latency", "0ns"))
        return {"rate": f"{rate_bps}bit", "latency": max(latencies, key=parse_duration)} if rate_bps else {}

    def _edges_of_xpus(self, device: Mapping[str, Any], key: KeyPath) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """(number of switches, edge) of the edges from xpus to switches that connect nothing else."""
        components = {component.get("name"): component for component in device.get("components") or []}
        found: dict[str, list[tuple[str | None, Mapping[str, Any]]]] = {}  # switch → (its indices, edge)
        mixed: set[str] = set()
        for edge in device.get("edges") or []:
            ends = [self._split(str((edge.get(end) or {}).get("component")), key) for end in ("ep1", "ep2")]
            for (name, indices), (other, _) in (ends, ends[::-1]):
                if components.get(name, {}).get("choice") == "switch":
                    found.setdefault(name, []).append((indices, edge))
                    mixed |= {name} if components.get(other, {}).get("choice") != "xpu" else set()
        for name in found.keys() - mixed:
            count = self._count(components[name], key)
            yield from ((len(self._indices(indices, count, key)), edge) for indices, edge in found[name])

    def _add_edge(self, edge: Mapping[str, Any], key: KeyPath) -> None:
        ones, others = (self._endpoints(edge.get(end), (*key, end)) for end in ("ep1", "ep2"))
        pairs: Iterator[tuple[str, str]]
        if edge.get("scheme", "one2one") == "many2many":
            pairs = product(ones, others)
        elif edge.get("scheme", "one2one") == "one2one":
            pairs = zip(ones, others, strict=False)
        else:
            raise self._document.error(f"scheme {edge['scheme']!r} is unknown: use one2one or many2many", key)
        facts = self._facts(str(edge.get("link")), self._links)
        for one, other in pairs:
            if one.rpartition(":")[0] != other.rpartition(":")[0]:
                self._imported.add_link((one, other), facts)

    def _endpoints(self, end: Any, key: KeyPath) -> list[str]:
        """`node:port` of every endpoint that expressions such as host[0:2] and nic[1] select."""
        if not isinstance(end, Mapping) or not all(
            isinstance(end.get(part), str) for part in ("instance", "component")
        ):
            raise self._document.error("an endpoint needs an instance and a component", key)
        path = [self._split(one, key) for one in (end["instance"], *end["component"].split("."))]
        return [f"{node}:{port}" for node, port in self._places(path, key)]

    def _places(self, path: Sequence[Selected], key: KeyPath) -> list[tuple[str, str]]:
        """(node, port) of everything that an instance and components inside it select; port "": the whole node."""
        (name, expression), *inside = path
        if name not in self._instances:
            raise self._document.error(f"there is no instance {name!r}", key)
        instance = self._instances[name]
        copies = self._indices(expression, self._count(instance, key), key)
        ports = self._ports(self._device(str(instance.get("device")), key), inside, key) if inside else [""]
        if len(copies) * len(ports) > MOST_NODES:
            raise self._document.error(f"names more than {MOST_NODES:,} endpoints", key)
        return [(f"{name}{index}", port) for index in copies for port in ports]

    def _ports(self, device: Mapping[str, Any], path: Sequence[Selected], key: KeyPath) -> list[str]:
        name, expression = path[0]
        components = {component.get("name"): component for component in device.get("components") or []}
        if name not in components:
            raise self._document.error(f"device {device['name']} has no component {name!r}", key)
        here = [f"{name}{index}" for index in self._indices(expression, self._count(components[name], key), key)]
        if len(path) == 1:
            return here
        inner = self._ports(self._device(name, key), path[1:], key)
        return [f"{one}.{other}" for one in here for other in inner]

    def _annotate(self, annotations: Annotations) -> None:
        for number, node in enumerate(annotations.nodes or ()):
            for one in node.attributes:
                if one.attribute == "rank":
                    self._add_rank(node, str(one.value), (KEY, "nodes", number))
                elif one.attribute == "ipaddress":
                    self._add_address(node, str(one.value), (KEY, "nodes", number))
        if ignored := annotations.ignored("rank", "ipaddress"):
            self._note(f"annotations other than rank and ipaddress are ignored: {', '.join(ignored)}")

    def _add_rank(self, node: AnnotatedNode, value: str, key: KeyPath) -> None:
        if (rank := digits(value)) is None or value != str(rank):
            raise self._document.error(f"rank {value!r} of {node.name} is not a rank: write 0, 1, 2 and so on", key)
        for host, _ in self._annotated(node, key):
            known = self._imported.ranks.setdefault(rank, host)
            if known != host:
                raise self._document.error(f"rank {value} is on {known} and on {host}: a rank has one host", key)
            if host not in self._imported.hosts:
                raise self._document.error(f"rank {value} is on {host}, which has no xpu and no NIC", key)

    def _add_address(self, node: AnnotatedNode, value: str, key: KeyPath) -> None:
        try:
            address = str(ip_interface(value).ip)
        except ValueError as error:
            raise self._document.error(f"ipaddress {value!r} of {node.name} is not an IP address", key) from error
        found = [
            (host, port)
            for host, start in self._annotated(node, key)
            for port in self._imported.hosts.get(host, ())
            if not start or f"{port}.".startswith(f"{start}.")
        ]
        if len(found) > 1:
            raise self._document.error(f"{node.name} has {len(found)} interfaces, but one ipaddress", key)
        if not found:
            self._note(f"the ipaddress of {node.name} is ignored: it is not an interface of a host with a link")
        for host, port in found:
            self._imported.hosts[host][port] = address

    def _annotated(self, node: AnnotatedNode, key: KeyPath) -> list[tuple[str, str]]:
        """(node, port) of everything that an annotation is for."""
        try:
            path = node.path()
        except ValueError as error:
            raise self._document.error(str(error), key) from error
        places = self._places(path, key)
        if not places:
            raise self._document.error(f"there is no node {node.name}", key)
        return places

    def _device(self, name: str, key: KeyPath) -> Mapping[str, Any]:
        if name not in self._devices:
            raise self._document.error(f"there is no device {name!r}", key)
        return self._devices[name]

    def _split(self, text: str, key: KeyPath) -> Selected:
        match = _COMPONENT_PART.fullmatch(text)
        if match is None:
            raise self._document.error(f"{text!r} is not an endpoint: write name, name[1] or name[0:4]", key)
        return match[1], match[2]

    def _indices(self, expression: str | None, count: int, key: KeyPath) -> list[int]:
        """Indices that `[1]`, `[0:4]` or `[-1]` selects; all of them without brackets."""
        parts = [int(part) if part else None for part in (expression or "").split(":")]
        if len(parts) == 1 and parts[0] is not None:
            index = parts[0] + count if parts[0] < 0 else parts[0]
            if not 0 <= index < count:
                raise self._document.error(f"[{expression}] is outside 0 to {count - 1}", key)
            return [index]
        return list(range(*slice(*parts if len(parts) > 1 else (None,)).indices(count)))

    def _count(self, entry: Mapping[str, Any], key: KeyPath) -> int:
        number = entry.get("count", 1)
        if not isinstance(number, int) or not 0 <= number <= MOST_NODES:
            raise self._document.error(f"count {number!r} is not a number from 0 to {MOST_NODES:,}", key)
        return number

    def _facts(self, name: str, links: Mapping[str, Any]) -> dict[str, str]:
        """Rate and latency of a link; a bandwidth in another unit than a bit rate is left out, with a note."""
        physical = (links.get(name) or {}).get("physical") or {}
        bandwidth, latency = physical.get("bandwidth") or {}, physical.get("latency") or {}
        facts = {}
        unit = str(bandwidth.get("choice"))
        if unit in _GIGABITS and isinstance(bandwidth.get(unit), int | float):
            facts["rate"] = f"{round(bandwidth[unit] * _GIGABITS[unit] * 10**9)}bit"
        elif bandwidth:
            self._note(f"link {name} has a bandwidth in {unit}, which is not a bit rate, and is ignored")
        if latency.get("choice") in ("ms", "us", "ns"):
            facts["latency"] = f"{latency[latency['choice']]}{latency['choice']}"
        return facts

    def _note(self, text: str) -> None:
        if text not in self._imported.notes:
            self._imported.notes.append(text)
