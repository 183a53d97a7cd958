"""Links of a lab: which ports are up, and what a port that was down gets back, which the kernel deleted with it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from enum import StrEnum

from emulator.device.lab.model import BRIDGE, Design, Node
from emulator.device.lab.recipe import BRIDGE_DEVICE, restored
from emulator.errors import HostError
from emulator.host.tools import CommandBatch, listed, run
from emulator.topology.network import End

CARRIER_TIMEOUT_S = 10.0
_FORWARDING = "forwarding"


class PortLink(StrEnum):
    """The state of a port's link."""

    UP = "up"
    DOWN = "down"
    """Somebody took the port down."""
    NO_CARRIER = "no carrier"
    """The other end of its cable is down."""


def links_of(node: Node) -> Mapping[str, PortLink]:
    """Device → the state of its link, for the ports of a node; without devices that cannot be read."""
    links = listed(CommandBatch(("ip", "-n", node.namespace, "-json", "link")))
    flags = {link["ifname"]: link["flags"] for link in links}
    return {port.device: _link(flags[port.device]) for port in node.ports if port.device in flags}


def ports_down(design: Design) -> list[End]:
    """Ports that somebody took down."""
    return [
        End(node.name, port.name)
        for node in design.nodes
        for links in [links_of(node)]
        for port in node.ports
        if links.get(port.device) is PortLink.DOWN
    ]


def bring_up(design: Design) -> None:
    """Bring all ports of a lab up, with their addresses and routes; those that are up stay as they are.

    Raises:
        HostError: a device is gone, or a port does not come up.
    """
    for node in design.nodes:
        bridge = [BRIDGE_DEVICE] if node.kind == BRIDGE else []
        lines = [f"link set dev {device} up" for device in (*bridge, *(port.device for port in node.ports))]
        run(CommandBatch(("ip", "-n", node.namespace, "-batch", "-"), lines))
    restore(design.nodes)
    await_carriers(design.nodes)


def restore(nodes: Sequence[Node]) -> None:
    """Give the ports that are up what the kernel deleted when they went down: addresses, neighbours and routes.

    Raises:
        HostError: the kernel refuses one of them.
    """
    for node in nodes:
        links = links_of(node)
        lines = list(restored(node, {device for device, link in links.items() if link is not PortLink.DOWN}))
        if lines:
            run(CommandBatch(("ip", "-n", node.namespace, "-batch", "-"), lines))


def await_carriers(nodes: Sequence[Node]) -> None:
    """Wait until every port of these nodes is up and forwards, which takes the kernel of a bridge up to a second.

    Raises:
        HostError: one of them does not come up.
    """
    deadline = time.monotonic() + CARRIER_TIMEOUT_S
    waiting = list(nodes)
    while waiting:
        waiting = [node for node in waiting if not _is_ready(node)]
        if waiting and time.monotonic() > deadline:
            raise HostError(f"the ports of {waiting[0].name} do not come up: `dmesg` may say why")
        time.sleep(0.02 if waiting else 0)


def _link(flags: Sequence[str]) -> PortLink:
    if "UP" not in flags:
        return PortLink.DOWN
    return PortLink.UP if "LOWER_UP" in flags else PortLink.NO_CARRIER


def _is_ready(node: Node) -> bool:
    links = {
        link["ifname"]: link for link in json.loads(run(CommandBatch(("ip", "-n", node.namespace, "-d", "-j", "link"))))
    }
    devices = [links[port.device] for port in node.ports]
    states = [one.get("linkinfo", {}).get("info_slave_data", {}).get("state", _FORWARDING) for one in devices]
    return all(one["operstate"] == "UP" for one in devices) and all(state == _FORWARDING for state in states)
