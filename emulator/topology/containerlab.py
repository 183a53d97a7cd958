"""Topology files of containerlab (*.clab.yml): nodes, each of a kind, and links between their interfaces.

Nodes of kind linux become hosts, bridges and Open vSwitches keep their kind, all others become routers. A label
`charkha: host` or `charkha: router` overrides this. Commands in the file are never executed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from emulator.topology.document import Document, KeyPath
from emulator.topology.imported import ImportedTopology

_KINDS = {"bridge": "bridge", "ovs-bridge": "ovs"}
_SET_ADDRESS = re.compile(r"\bip (?:-\d )?(?:a|addr|address) add ([0-9a-fA-F.:]+)(?:/\d+)? dev ([\w.-]+)")
_UNMAPPED = ("startup-config", "binds", "env", "ports", "cmd", "sysctls", "license")
_ROLES = ("host", "router", "bridge", "ovs")


def is_containerlab(value: Any) -> bool:
    """Whether this is the content of a containerlab file."""
    return isinstance(value, Mapping) and isinstance(value.get("topology"), Mapping)


def read_containerlab(document: Document) -> ImportedTopology:
    """Hosts, switches and links of a containerlab file.

    Addresses are those that `exec` sets with `ip addr add`. Rates come from the vars of a link (`rate: 1Gbit`).

    Raises:
        TopologyError: a node or link does not have the form that containerlab uses.
    """
    topology = document.value["topology"]
    name = document.value.get("name", document.path.stem.removesuffix(".clab"))
    imported = ImportedTopology(str(name))
    key = ("topology", "nodes")
    nodes = topology.get("nodes")
    if not isinstance(nodes, Mapping) or not nodes:
        raise document.error("has no nodes", ("topology",))
    for node, entry in nodes.items():
        if entry is not None and not isinstance(entry, Mapping):
            raise document.error("is not a node: write a mapping with its kind", (*key, node))
        _add_node(imported, node, _inherited(topology, entry or {}))
    for number, link in enumerate(topology.get("links") or []):
        _add_link(document, imported, link, ("topology", "links", number))
    _set_addresses(imported, topology, nodes)
    return imported


def _inherited(topology: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a node, including those of its group, its kind and the defaults."""
    defaults = topology.get("defaults") or {}
    group = (topology.get("groups") or {}).get(entry.get("group")) or {}
    kind = entry.get("kind") or group.get("kind") or defaults.get("kind") or "linux"
    of_kind = (topology.get("kinds") or {}).get(kind) or {}
    return {**defaults, **of_kind, **group, **entry, "kind": kind}


def _add_node(imported: ImportedTopology, name: str, node: Mapping[str, Any]) -> None:
    kind = str(node["kind"])
    role = (node.get("labels") or {}).get("charkha")
    if role not in _ROLES:
        role = "host" if kind == "linux" else _KINDS.get(kind, "router")
    if role == "host":
        imported.hosts[name] = {}
    else:
        imported.switches[name] = role
    unmapped = [field for field in _UNMAPPED if node.get(field)]
    if unmapped:
        imported.notes.append(f"node {name}: {', '.join(unmapped)} {'is' if len(unmapped) == 1 else 'are'} not used")


def _add_link(document: Document, imported: ImportedTopology, link: Any, key: KeyPath) -> None:
    if not isinstance(link, Mapping):
        raise document.error("is not a link: write a mapping with endpoints", key)
    if link.get("type", "veth") != "veth":
        imported.notes.append(
            f"{key[-2]}[{key[-1]}] is of type {link['type']}, which leads out of the lab and is ignored"
        )
        return
    ends = link.get("endpoints")
    if not isinstance(ends, Sequence) or len(ends) != 2:
        raise document.error("needs two endpoints", key)
    one, other = (_end(document, end, (*key, "endpoints", number)) for number, end in enumerate(ends))
    outside = [end for end in (one, other) if end.partition(":")[0] in ("host", "mgmt-net", "macvlan")]
    if outside:
        imported.notes.append(f"{one} - {other} leads out of the lab and is ignored")
        return
    variables = link.get("vars") or {}
    facts = {"mtu": link.get("mtu"), "rate": variables.get("rate"), "latency": variables.get("latency")}
    imported.add_link((one, other), facts)


def _end(document: Document, end: Any, key: KeyPath) -> str:
    if isinstance(end, Mapping) and "node" in end and "interface" in end:
        return f"{end['node']}:{end['interface']}"
    if not isinstance(end, str) or ":" not in end:
        raise document.error(f"{end!r} is not an endpoint: write node:interface", key)
    return end


def _set_addresses(imported: ImportedTopology, topology: Mapping[str, Any], nodes: Mapping[str, Any]) -> None:
    """Set the addresses that commands under `exec` give to interfaces."""
    for name, ports in imported.hosts.items():
        for command in _inherited(topology, nodes[name] or {}).get("exec") or []:
            for address, port in _SET_ADDRESS.findall(str(command)):
                if port in ports:
                    ports[port] = address
