"""The commands that make a box of two interfaces, and that give them back."""

from __future__ import annotations

import os
from collections.abc import Iterator

from emulator.device.box.model import Box
from emulator.device.lab.recipe import BRIDGE_DEVICE, FOREIGN_FILTERS, Batch, exec_prefix, shaping_batch

_AS_A_CABLE = "stp_state 0 mcast_snooping 0 group_fwd_mask 0xfff8"
"""The mask has the link-local groups that it forwards: all but STP, pause and LACP, which Linux never forwards."""


def bring_up(box: Box) -> Iterator[Batch]:
    """Commands that move the ports into a namespace of their own and bridge them, in order."""
    node = box.node
    namespace = node.namespace
    yield Batch(("ip", "netns", "add", namespace))
    quiet = [f"net.ipv6.conf.{which}.disable_ipv6=1" for which in ("all", "default")]
    yield Batch((*exec_prefix(node), "sysctl", "-q", "-e", "-w", *quiet, *FOREIGN_FILTERS))
    yield Batch(("ip", "-batch", "-"), [f"link set dev {port.name} netns {namespace}" for port in box.ports])
    for port in box.ports:  # a merged packet would meet a rule once, and not once per frame
        yield Batch((*exec_prefix(node), "ethtool", "-K", port.name, "gro", "off"))
    devices = [
        f"link add {BRIDGE_DEVICE} mtu {box.ports[0].mtu} type bridge {_AS_A_CABLE}",
        *(f"link set dev {port.name} master {BRIDGE_DEVICE} up" for port in box.ports),
        f"link set dev {BRIDGE_DEVICE} up",
    ]
    yield Batch(("ip", "-n", namespace, "-batch", "-"), devices)
    if box.rate_bps is not None:
        yield shaping_batch(node)


def give_back(box: Box) -> Iterator[Batch]:
    """Commands that give the ports back as they were. They may fail: a port may not have been moved yet, or be gone."""
    namespace = box.node.namespace
    for port in box.ports:
        yield Batch(("ip", "-n", namespace, "link", "set", "dev", port.name, "netns", str(os.getpid())))
        if port.merged:
            yield Batch(("ethtool", "-K", port.name, "gro", "on"))
        if port.is_up:
            yield Batch(("ip", "link", "set", "dev", port.name, "up"))
