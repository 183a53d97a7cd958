"""A lab between two real ports of this machine: which ports may serve, the commands that join them, and give them back.

Its only switch is a bridge, which profiles apply to; what hangs on the ports is outside.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emulator.device.counters.counters import ProfileCounter
from emulator.device.lab.model import BRIDGE, Design, LabPort, Node
from emulator.device.lab.recipe import BRIDGE_DEVICE, FOREIGN_FILTERS, exec_prefix, shaping_batch
from emulator.device.lab.shaping import shape
from emulator.errors import PlanError
from emulator.host.tools import CommandBatch, attempt, listed
from emulator.topology.network import End

SWITCH = "box"
"""Name of the bridge in rules: a port is `box:eth1`."""
DEFAULT_ID = "box"
_AS_A_CABLE = "stp_state 0 mcast_snooping 0 group_fwd_mask 0xfff8"
"""The mask has the link-local groups that it forwards: all but STP, pause and LACP, which Linux never forwards."""
_MERGES = re.compile(r"^generic-receive-offload: on", re.MULTILINE)
_OWN_NETWORK = Path("/proc/self/ns/net")


@dataclass(frozen=True, slots=True)
class RealPort:
    """A port, and what it was before the lab took it.

    Attributes:
        mtu: bytes of an IP packet.
        is_up: whether it was up.
        merged: whether it merged packets that it received (GRO).
    """

    name: str
    mac: str
    mtu: int
    is_up: bool = True
    merged: bool = True


@dataclass(frozen=True, slots=True)
class PortPair:
    """The two ports, and the profile in force between them.

    Attributes:
        ports: two.
        network: inode of the network namespace that they came from.
        rate_bps: rate that both are limited to, bit/s; None: no limit.
        profile: name of the profile in force; None: the lab only forwards.
        rules: what the rules of the profile do, in their order.
        counters: of these rules.
        before: port → counter → its value when the lab came up: an interface counts from when its driver was loaded.
        earlier: profile_drops, ecn_marked, profile_duplicates → frames by profiles that were in force before.
    """

    ports: Sequence[RealPort]
    network: int
    rate_bps: int | None = None
    profile: str | None = None
    rules: Sequence[tuple[str, str]] = ()
    counters: Sequence[ProfileCounter] = ()
    before: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    earlier: Mapping[str, int] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the ports."""
        return tuple(port.name for port in self.ports)

    def design(self, lab_id: str) -> Design:
        """A lab of one switch."""
        ports = [
            LabPort(
                name=port.name,
                device=port.name,
                mac=port.mac,
                peer=End("outside", port.name),
                mtu=port.mtu,
                shaping=shape(self.rate_bps, mtu=port.mtu, is_host=False),
            )
            for port in self.ports
        ]
        return Design(lab_id, [Node(SWITCH, BRIDGE, f"charkha-box-{lab_id}", ports)], [])


def own_network() -> int:
    """Inode of the network namespace of this process."""
    return _OWN_NETWORK.stat().st_ino


def find_ports(names: Sequence[str]) -> list[RealPort]:
    """Two interfaces of this host as ports.

    Raises:
        PlanError: an interface does not exist, is in use, or does not fit the other one.
    """
    if len(set(names)) != len(names):
        raise PlanError(f"{names[0]} is given twice: a lab is between two different interfaces")
    links = {link["ifname"]: link for link in listed(CommandBatch(("ip", "-d", "-j", "address")))}
    ports = [_port(name, links) for name in names]
    one, other = ports
    if one.mtu != other.mtu:
        mtus = f"{one.name} has MTU {one.mtu}, {other.name} has {other.mtu}"
        raise PlanError(f"{mtus}: frames would be lost between them; `ip link set dev {other.name} mtu {one.mtu}`")
    return ports


def _port(name: str, links: Mapping[str, Mapping[str, Any]]) -> RealPort:
    link = links.get(name)
    if link is None:
        raise PlanError(f"there is no interface {name!r} on this machine; there are {', '.join(sorted(links))}")
    if link.get("link_type") != "ether":
        raise PlanError(f"{name} is no Ethernet interface ({link.get('link_type')}): a lab cannot bridge it")
    if "master" in link:
        raise PlanError(f"{name} belongs to {link['master']}: `ip link set dev {name} nomaster` releases it")
    addresses = [f"{one['local']}/{one['prefixlen']}" for one in link["addr_info"] if one.get("scope") != "link"]
    if addresses:
        problem = f"{name} has address {addresses[0]}, which this machine would lose"
        raise PlanError(f"{problem}: choose a different interface, or `ip address delete {addresses[0]} dev {name}`")
    merged = bool(_MERGES.search(attempt(CommandBatch(("ethtool", "-k", name)))))
    return RealPort(name, link["address"], link["mtu"], is_up="UP" in link["flags"], merged=merged)


def joined(node: Node) -> Iterator[CommandBatch]:
    """Commands that move the ports of a switch into its namespace and bridge them, in order."""
    namespace = node.namespace
    yield CommandBatch(("ip", "netns", "add", namespace))
    quiet = [f"net.ipv6.conf.{which}.disable_ipv6=1" for which in ("all", "default")]
    yield CommandBatch((*exec_prefix(node), "sysctl", "-q", "-e", "-w", *quiet, *FOREIGN_FILTERS))
    yield CommandBatch(("ip", "-batch", "-"), [f"link set dev {port.device} netns {namespace}" for port in node.ports])
    for port in node.ports:  # a merged packet would meet a rule once, and not once per frame
        yield CommandBatch((*exec_prefix(node), "ethtool", "-K", port.device, "gro", "off"))
    devices = [
        f"link add {BRIDGE_DEVICE} mtu {node.ports[0].mtu} type bridge {_AS_A_CABLE}",
        *(f"link set dev {port.device} master {BRIDGE_DEVICE} up" for port in node.ports),
        f"link set dev {BRIDGE_DEVICE} up",
    ]
    yield CommandBatch(("ip", "-n", namespace, "-batch", "-"), devices)
    if any(port.shaping for port in node.ports):
        yield shaping_batch(node)


def given_back(pair: PortPair, namespace: str) -> Iterator[CommandBatch]:
    """Commands that give the ports back as they were. They may fail: a port may not have been moved yet, or be gone."""
    for port in pair.ports:
        yield CommandBatch(("ip", "-n", namespace, "link", "set", "dev", port.name, "netns", str(os.getpid())))
        if port.merged:
            yield CommandBatch(("ethtool", "-K", port.name, "gro", "on"))
        if port.is_up:
            yield CommandBatch(("ip", "link", "set", "dev", port.name, "up"))
