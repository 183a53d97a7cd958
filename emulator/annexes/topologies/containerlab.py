"""Topology files of containerlab (*.clab.yml): nodes, each of a kind, and links between their interfaces.

Nodes of kind linux become hosts, or routers where their image or their files are those of a routing daemon; bridges and
Open vSwitches keep their kind, all others become routers. A label `charkha: host` or `charkha: router` overrides this;
a linux node with several links that nothing else tells needs it. Commands in the file are never executed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_interface
from typing import Any

from emulator.annexes.topologies.imported import ImportedTopology
from emulator.topology.document import Document, KeyPath

_KINDS = {"bridge": "bridge", "ovs-bridge": "ovs"}
_ROUTING = re.compile(r"frr|quagga|\bbird|gobgp|vyos|openbgpd|cumulus|ip_forward(?!\W{1,4}0\b)", re.IGNORECASE)
"""In the image, files and commands of a linux node: it forwards."""
_COMMANDS = re.compile(r"&&|\|\||[;|\n]")
_VERBS = ("add", "replace", "change", "append")
_WRAPPERS = ("sudo", "env", "busybox", "nohup", "exec")
_LIMITS = re.compile(r"tc (qdisc|class|filter)\b|ip .*\bmtu \d|ifconfig .*\bmtu \d|ethtool -s\b")
"""Commands that change the rate, the latency or the MTU of a port."""
_UNCLEAR = {"generic_vm", "ext-container", "host", "k8s-kind"}
"""Kinds that may be of a host as well as of a router."""
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
    settings: dict[str, dict[str, Any]] = {}
    nodes = topology.get("nodes")
    if not isinstance(nodes, Mapping) or not nodes:
        raise document.error("has no nodes", ("topology",))
    for node, entry in nodes.items():
        if entry is not None and not isinstance(entry, Mapping):
            raise document.error("is not a node: write a mapping with its kind", (*key, node))
        settings[node] = _inherited(topology, entry or {})
        role = (settings[node].get("labels") or {}).get("charkha")
        if role not in (None, *_ROLES):
            problem = f"has the label charkha: {role!r}; there are {', '.join(_ROLES)}"
            raise document.error(problem, (*key, node))
        _add_node(imported, node, settings[node])
    for number, link in enumerate(topology.get("links") or []):
        _add_link(document, imported, link, ("topology", "links", number))
    _check_roles(document, imported, settings)
    for name, ports in imported.hosts.items():
        _set_addresses(imported, name, ports, settings[name])
    return imported


def _check_roles(document: Document, imported: ImportedTopology, settings: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse a linux node with several links to other nodes that may be a host or a router."""
    for name, ports in imported.hosts.items():
        if len(ports) > 1 and _label(settings[name]) is None:
            problem = f"is of kind linux and has {len(ports)} links, so it may be a host or a router: add labels:"
            raise document.error(f"{problem} {{charkha: host}} or {{charkha: router}}", ("topology", "nodes", name))


def _label(node: Mapping[str, Any]) -> str | None:
    role = (node.get("labels") or {}).get("charkha")
    return role if role in _ROLES else None


def _inherited(topology: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a node, including those of its group, its kind and the defaults."""
    defaults = topology.get("defaults") or {}
    group = (topology.get("groups") or {}).get(entry.get("group")) or {}
    kind = entry.get("kind") or group.get("kind") or defaults.get("kind") or "linux"
    of_kind = (topology.get("kinds") or {}).get(kind) or {}
    levels = (defaults, of_kind, group, entry)
    labels = {name: value for one in levels for name, value in (one.get("labels") or {}).items()}
    commands = [command for one in levels for command in one.get("exec") or []]  # all of them are run
    return {**defaults, **of_kind, **group, **entry, "kind": kind, "labels": labels, "exec": commands}


def _add_node(imported: ImportedTopology, name: str, node: Mapping[str, Any]) -> None:
    kind = str(node["kind"])
    role = _label(node)
    if role is None and kind == "linux" and (found := _ROUTING.search(_said(node))):
        role = "router"
        imported.notes.append(f"node {name}: a router, as {found[0]!r} says; the label charkha: host makes it a host")
    elif role is None and kind in _UNCLEAR:
        imported.notes.append(f"node {name}: a router, as all of kind {kind}; the label charkha: host makes it a host")
    role = role or ("host" if kind == "linux" else _KINDS.get(kind, "router"))
    if role == "host":
        imported.hosts[name] = {}
    else:
        imported.switches[name] = role
    for words in (words for line in node["exec"] for words in _words(str(line))):
        if _LIMITS.match(command := " ".join(words)):
            imported.notes.append(f"node {name}: {command!r} is not used: give rate, latency and mtu at the link")
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
    _set_link_addresses(imported, (one, other), link, ends)


def _end(document: Document, end: Any, key: KeyPath) -> str:
    if isinstance(end, Mapping) and "node" in end and "interface" in end:
        return f"{end['node']}:{end['interface']}"
    if not isinstance(end, str) or ":" not in end:
        raise document.error(f"{end!r} is not an endpoint: write node:interface", key)
    return end


def _said(node: Mapping[str, Any]) -> str:
    """Image, files and commands of a node."""
    return " ".join(str(node.get(field) or "") for field in ("image", "binds", "exec", "sysctls", "entrypoint", "cmd"))


def _set_link_addresses(
    imported: ImportedTopology, names: Sequence[str], link: Mapping[str, Any], ends: Sequence[Any]
) -> None:
    """Set the addresses that a link gives to its ends: a list of both, or one at an endpoint."""
    for number, name in enumerate(names):
        node, _, port = name.rpartition(":")
        for family in ("ipv4", "ipv6"):
            listed = link.get(family)
            at_end = ends[number].get(family) if isinstance(ends[number], Mapping) else None
            said = at_end or (listed[number] if isinstance(listed, Sequence) and number < len(listed) else None)
            address = _address(str(said)) if said else None
            if node in imported.hosts and address is not None and imported.hosts[node].get(port) is None:
                imported.hosts[node][port] = address


def _set_addresses(
    imported: ImportedTopology, name: str, ports: dict[str, str | None], node: Mapping[str, Any]
) -> None:
    """Set the addresses that commands under `exec` give to interfaces; say which commands are not understood."""
    for line in node.get("exec") or []:
        for words in _words(str(line)):
            given = _given(words)
            if given is not None and given[0] in ports:
                ports[given[0]] = given[1]
            elif given is not None and given[0] not in ("lo", "eth0") and None in ports.values():
                imported.notes.append(f"node {name}: {' '.join(words)!r} is for no interface with a link")
            elif given is None and _may_give(words, ports):
                imported.notes.append(f"node {name}: {' '.join(words)!r} is not understood")


def _words(line: str) -> Iterator[list[str]]:
    """The commands of a line, those that a shell is given included."""
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    for at, word in enumerate(words):
        if " " in word:
            yield from _words(word)
            words[at] = ""
    for command in _COMMANDS.split(" ".join(words)):
        found = command.split()
        while found and (found[0] in _WRAPPERS or "=" in found[0]):
            del found[0]
        if found:
            yield [found[0].rpartition("/")[2], *found[1:]]


def _given(words: Sequence[str]) -> tuple[str, str] | None:
    """Interface and address of `ip address add ADDRESS dev PORT`, in any spelling, or of `ifconfig PORT ADDRESS`."""
    if words[0] not in ("ip", "ifconfig"):
        return None
    if words[0] == "ifconfig":
        address = next(filter(None, map(_address, words[2:])), None)
        return None if address is None else (words[1], address)
    rest = [one for one in words[1:] if not one.startswith("-")]
    is_address = len(rest) > 2 and "address".startswith(rest[0]) and any(one.startswith(rest[1]) for one in _VERBS)
    if not is_address or "dev" not in rest[:-1]:
        return None
    address = next(filter(None, map(_address, rest[2:])), None)
    return None if address is None else (rest[rest.index("dev") + 1], address)


def _may_give(words: Sequence[str], ports: Mapping[str, object]) -> bool:
    """Whether a command that is not understood may set the address of an interface with a link."""
    if words[0] == "ip" and any(one.startswith(("r", "n")) for one in words[1:2]):  # route, rule, neighbour, netns
        return "netns" in words[1:2]
    is_address = any(one.startswith("addr") for one in words)
    return bool(ports.keys() & set(words)) and (is_address or any(_address(one) and "/" in one for one in words))


def _address(word: str) -> str | None:
    try:
        return str(ip_interface(word).ip)
    except ValueError:
        return None
