"""Looks at the interfaces that shall become the ports of a box, and refuses those that serve something else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from emulator.device.box.model import BoxPort
from emulator.device.lab.commands import attempt
from emulator.device.lab.recipe import Batch
from emulator.errors import PlanError

_MERGES = re.compile(r"^generic-receive-offload: on", re.MULTILINE)


def find_ports(names: Sequence[str]) -> list[BoxPort]:
    """The ports of a box.

    Args:
        names: two interfaces of this host.

    Raises:
        PlanError: an interface does not exist, is in use, or does not fit the other one.
    """
    if len(set(names)) != len(names):
        raise PlanError(f"{names[0]} is given twice: a box forwards between two different interfaces")
    links = {link["ifname"]: link for link in json.loads(attempt(Batch(("ip", "-d", "-j", "address"))) or "[]")}
    ports = [_port(name, links) for name in names]
    one, other = ports
    if one.mtu != other.mtu:
        mtus = f"{one.name} has MTU {one.mtu}, {other.name} has {other.mtu}"
        raise PlanError(f"{mtus}: frames would be lost between them; `ip link set dev {other.name} mtu {one.mtu}`")
    return ports


def _port(name: str, links: Mapping[str, Mapping[str, Any]]) -> BoxPort:
    link = links.get(name)
    if link is None:
        raise PlanError(f"there is no interface {name!r} on this machine; there are {', '.join(sorted(links))}")
    if link.get("link_type") != "ether":
        raise PlanError(f"{name} is no Ethernet interface ({link.get('link_type')}): a box cannot bridge it")
    if "master" in link:
        raise PlanError(f"{name} belongs to {link['master']}: `ip link set dev {name} nomaster` releases it")
    addresses = [f"{one['local']}/{one['prefixlen']}" for one in link["addr_info"] if one.get("scope") != "link"]
    if addresses:
        problem = f"{name} has address {addresses[0]}, which this machine would lose"
        raise PlanError(f"{problem}: choose a different interface, or `ip address delete {addresses[0]} dev {name}`")
    merged = bool(_MERGES.search(attempt(Batch(("ethtool", "-k", name)))))
    return BoxPort(name, link["address"], link["mtu"], is_up="UP" in link["flags"], merged=merged)
