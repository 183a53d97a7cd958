"""What a box is: two ports of this machine, the namespace that holds them, and the profile in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from emulator.device.counters.profile_counters import ProfileCounter
from emulator.device.lab.model import BRIDGE, Design, Node, Port
from emulator.device.lab.shaping import shape
from emulator.topology.network import End

SWITCH = "box"
"""Name of the bridge in rules: a port is `box:eth1`."""


@dataclass(frozen=True, slots=True)
class BoxPort:
    """A port, and what it was before it became one.

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
class Box:
    """A box that is up, or that was being brought up.

    Attributes:
        box_id: part of the name of its namespace.
        ports: two.
        network: inode of the network namespace that its ports came from.
        rate_bps: rate that it limits its ports to, bit/s; None: no limit.
        profile: name of the profile in force; None: it only forwards.
        rules: what the rules of the profile do, in their order.
        counters: of these rules.
        before: port → counter → its value when the box came up: an interface counts from when its driver was loaded.
        earlier: profile_drops, ecn_marked, profile_duplicates → frames by profiles that were in force before.
        created: ISO 8601 with zone.
    """

    box_id: str
    ports: Sequence[BoxPort]
    network: int
    created: str
    rate_bps: int | None = None
    profile: str | None = None
    rules: Sequence[tuple[str, str]] = ()
    counters: Sequence[ProfileCounter] = ()
    before: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    earlier: Mapping[str, int] = field(default_factory=dict)

    @property
    def design(self) -> Design:
        """The box as a lab of one switch, which is what profiles are applied to."""
        ports = [
            Port(
                name=port.name,
                device=port.name,
                mac=port.mac,
                peer=End("outside", port.name),
                mtu=port.mtu,
                shaping=shape(self.rate_bps, mtu=port.mtu, is_host=False),
            )
            for port in self.ports
        ]
        node = Node(SWITCH, BRIDGE, f"charkha-box-{self.box_id}", ports)
        return Design(self.box_id, [node], [])

    @property
    def node(self) -> Node:
        """Its only switch."""
        return self.design.nodes[0]
