"""The present state of a lab: its design, and what the kernel has counted."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from emulator.device.lab.commands import attempt
from emulator.device.lab.links import PortLink, links_of
from emulator.device.lab.model import OVS, Node
from emulator.device.lab.packet_sockets import SOCKET_DROPS, drops, packet_sockets
from emulator.device.lab.recipe import CommandBatch
from emulator.device.lab.removal import processes_in
from emulator.device.lab.state import LabState

COUNTERS = ("rx_packets", "rx_bytes", "rx_dropped", "rx_errors", "tx_packets", "tx_bytes", "tx_dropped", "tx_errors")
QUEUE_DROPS, QUEUE_BACKLOG = "qdisc_drops", "qdisc_backlog_bytes"
_SHAPER = "2:"


@dataclass(frozen=True, slots=True)
class LabStatus:
    """A lab and its counters.

    Attributes:
        counters: (node, port) → counter → value; without a port that cannot be read.
        links: (node, port) → the state of its link; without a port that cannot be read.
        processes: how many run inside.
    """

    state: LabState
    counters: Mapping[tuple[str, str], Mapping[str, int]]
    links: Mapping[tuple[str, str], PortLink]
    processes: int

    def to_json(self) -> dict[str, Any]:
        """The same for programs."""
        state, design = self.state, self.state.design
        return {
            "id": state.lab_id,
            "phase": state.phase,
            "topology": state.topology,
            "digest": state.digest,
            "created": state.created,
            "belongs_to": {"user": state.belongs_to.uid, "service": state.belongs_to.service},
            "tester_limited": state.limited,
            "versions": dict(state.versions),
            "processes": self.processes,
            "nodes": [self._node(node) for node in design.nodes],
            "links": [[str(end) for end in cable] for cable in design.cables],
        }

    def _node(self, node: Node) -> dict[str, Any]:
        ports = [
            {
                "name": port.name,
                "device": port.device,
                "mac": port.mac,
                "mtu": port.mtu,
                "peer": str(port.peer),
                "link": self.links.get((node.name, port.name)),
                "addresses": [*port.local, *port.addresses],
                "shaping": dataclasses.asdict(port.shaping) if port.shaping else None,
                "counters": dict(self.counters.get((node.name, port.name), {})),
            }
            for port in node.ports
        ]
        seed = {"hash_seed": node.hash_seed} if node.hash_seed else {}
        return {"name": node.name, "kind": node.kind, "namespace": node.namespace, "ports": ports, **seed}


def describe(state: LabState) -> LabStatus:
    """Look at a lab; what cannot be read (without root, or incomplete) is left out."""
    counters: dict[tuple[str, str], Mapping[str, int]] = {}
    links: dict[tuple[str, str], PortLink] = {}
    for node in state.design.nodes:
        known = device_counters(node.namespace)
        if node.kind == OVS:
            for device, dropped in _socket_drops(node.namespace).items():
                known.get(device, {})[SOCKET_DROPS] = dropped
        counters |= {(node.name, port.name): known[port.device] for port in node.ports if port.device in known}
        of_device = links_of(node)
        links |= {(node.name, port.name): of_device[port.device] for port in node.ports if port.device in of_device}
    return LabStatus(state, counters, links, len(processes_in(node.namespace for node in state.design.nodes)))


def device_counters(namespace: str) -> dict[str, dict[str, int]]:
    """Device → counter → value in a namespace; empty if it cannot be entered."""
    found: dict[str, dict[str, int]] = {}
    for link in _json(CommandBatch(("ip", "-n", namespace, "-s", "-json", "link"))):
        both = link.get("stats64", {})
        values = {f"{way}_{name}": value for way in ("rx", "tx") for name, value in both.get(way, {}).items()}
        found[link["ifname"]] = {name: values[name] for name in COUNTERS if name in values}
    for qdisc in _json(CommandBatch(("tc", "-n", namespace, "-s", "-json", "qdisc", "show"))):
        if qdisc.get("handle") == _SHAPER and qdisc.get("dev") in found:
            found[qdisc["dev"]] |= {QUEUE_DROPS: qdisc.get("drops", 0), QUEUE_BACKLOG: qdisc.get("backlog", 0)}
    return found


def _socket_drops(namespace: str) -> Mapping[str, int]:
    try:
        sockets = packet_sockets([namespace])
    except OSError:
        return {}
    found = {}
    for device, sock in sockets.items():
        with sock:
            found[device] = drops(sock)
    return found


def _json(batch: CommandBatch) -> list[dict[str, Any]]:
    text = attempt(batch)
    try:
        return list(json.loads(text)) if text.strip() else []
    except ValueError:
        return []
