"""containerlab's topology files (*.clab.yml): nodes of a kind, and links between their interfaces.

Nodes of kind linux become hosts, bridges and Open vSwitches become those, everything else a router. A label
`charkha: host` or `charkha: router` says otherwise. Nothing of the file is executed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from emulator.topology.document import Document, KeyPath
from emulator.topology.imported import Foreign

_KINDS = {"bridge": "bridge", "ovs-bridge": "ovs"}
_SET_ADDRESS = re.compile(r"\bip (?:-\d )?(?:a|addr|address) add ([0-9a-fA-F.:]+)(?:/\d+)? dev ([\w.-]+)")
_UNMAPPED = ("startup-config", "binds", "env", "ports", "cmd", "sysctls", "license")
_ROLES = ("host", "router", "bridge", "ovs")


def is_containerlab(value: Any) -> bool:
    """Whether a file's content is one of containerlab's."""
    return isinstance(value, Mapping) and isinstance(value.get("topology"), Mapping)


def read_containerlab(document: Document) -> Foreign:
    """Hosts, switches and links of a *.clab.yml.

    Addresses are those that `exec` sets with `ip addr add`; link rates are taken from a link's vars (`rate: 1Gbit`).

    Raises:
        TopologyError: nodes or links that are none of containerlab's.
    """
    topology = document.value["topology"]
    name = document.value.get("name", document.path.stem.removesuffix(".clab"))
    foreign = Foreign(str(name))
    key = ("topology", "nodes")
    nodes = topology.get("nodes")
    if not isinstance(nodes, Mapping) or not nodes:
        raise document.error("has no nodes", ("topology",))
    for node, entry in nodes.items():
        if entry is not None and not isinstance(entry, Mapping):
            raise document.error("is not a node: a mapping with its kind is needed", (*key, node))
        _add_node(foreign, node, _inherited(topology, entry or {}))
    for number, link in enumerate(topology.get("links") or []):
        _add_link(document, foreign, link, ("topology", "links", number))
    _set_addresses(foreign, topology, nodes)
    return foreign


def _inherited(topology: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """A node with what it has from its kind, its group and the defaults."""
    defaults = topology.get("defaults") or {}
    group = (topology.get("groups") or {}).get(entry.get("group")) or {}
    kind = entry.get("kind") or group.get("kind") or defaults.get("kind") or "linux"
    of_kind = (topology.get("kinds") or {}).get(kind) or {}
    return {**defaults, **of_kind, **group, **entry, "kind": kind}


def _add_node(foreign: Foreign, name: str, node: Mapping[str, Any]) -> None:
    kind = str(node["kind"])
    role = (node.get("labels") or {}).get("charkha")
    if role not in _ROLES:
        role = "host" if kind == "linux" else _KINDS.get(kind, "router")
    if role == "host":
        foreign.hosts[name] = {}
    else:
        foreign.switches[name] = role
    unmapped = [field for field in _UNMAPPED if node.get(field)]
    if unmapped:
        foreign.notes.append(f"node {name}: {', '.join(unmapped)} {'is' if len(unmapped) == 1 else 'are'} not used")


def _add_link(document: Document, foreign: Foreign, link: Any, key: KeyPath) -> None:
    if not isinstance(link, Mapping):
        raise document.error("is not a link: a mapping with endpoints is needed", key)
    if link.get("type", "veth") != "veth":
        foreign.notes.append(
            f"{key[-2]}[{key[-1]}] is of type {link['type']}, which leads out of the lab: it is left out"
        )
        return
    ends = link.get("endpoints")
    if not isinstance(ends, Sequence) or len(ends) != 2:
        raise document.error("has no two endpoints", key)
    one, other = (_end(document, end, (*key, "endpoints", number)) for number, end in enumerate(ends))
    outside = [end for end in (one, other) if end.partition(":")[0] in ("host", "mgmt-net", "macvlan")]
    if outside:
        foreign.notes.append(f"{one} - {other} leads out of the lab: it is left out")
        return
    variables = link.get("vars") or {}
    facts = {"mtu": link.get("mtu"), "rate": variables.get("rate"), "latency": variables.get("latency")}
    foreign.join((one, other), facts)


def _end(document: Document, end: Any, key: KeyPath) -> str:
    if isinstance(end, Mapping) and "node" in end and "interface" in end:
        return f"{end['node']}:{end['interface']}"
    if not isinstance(end, str) or ":" not in end:
        raise document.error(f"{end!r} is not an endpoint: write node:interface", key)
    return end


def _set_addresses(foreign: Foreign, topology: Mapping[str, Any], nodes: Mapping[str, Any]) -> None:
    """Addresses that the file gives to interfaces of hosts."""
    for name, ports in foreign.hosts.items():
        for command in _inherited(topology, nodes[name] or {}).get("exec") or []:
            for address, port in _SET_ADDRESS.findall(str(command)):
                if port in ports:
                    ports[port] = address
