"""Writes the iproute2 commands for rules about ports: rates, delays and links.

A port of a lab has two queueing disciplines (device/lab/recipe.py): the outer one, 1:, cuts GSO batches into frames;
the inner one, 2:, shapes. Changing 2: keeps its queue and its counters.
"""

from __future__ import annotations

from collections.abc import Sequence

from emulator.device.lab.model import LabPort, Node, Shaping
from emulator.device.lab.recipe import CommandBatch
from emulator.device.lab.shaping import shape as shaping_of
from emulator.device.profile.profile import Delay
from emulator.units import NS_PER_US

_MOST_DELAYED_FRAMES = 1_000_000


def shape(node: Node, rates: Sequence[tuple[LabPort, int]], queue_bytes: int | None) -> CommandBatch:
    """Limit the rates of ports.

    Args:
        node: the switch.
        rates: ports with their rates, bit/s.
        queue_bytes: depth of their queues, raised to one frame if smaller; None keeps the present depth.
    """
    lines = []
    for port, bps in rates:
        shaping = port.shaping or shaping_of(bps, mtu=port.mtu, is_host=False)
        assert shaping is not None  # None only without a rate
        where = f"qdisc change dev {port.device} parent 1:1" if port.shaping else f"qdisc add dev {port.device} root"
        lines.append(f"{where} handle 2: {_bucket(shaping, bps, queue_bytes)}")
    return _tc(node, lines)


def unshape(node: Node, ports: Sequence[LabPort]) -> CommandBatch:
    """Restore the rates of the links."""
    lines = [
        f"qdisc change dev {port.device} parent 1:1 handle 2: {_bucket(port.shaping, port.shaping.rate_bps, None)}"
        if port.shaping
        else f"qdisc del dev {port.device} root"
        for port in ports
    ]
    return _tc(node, lines)


def delay(node: Node, ports: Sequence[LabPort], action: Delay) -> CommandBatch:
    """Delay frames with netem, after the shaper of a port that has one."""
    words = f"netem limit {_MOST_DELAYED_FRAMES} delay {_us(action.delay_ns)}"
    words += f" {_us(action.jitter_ns)}" if action.jitter_ns else ""
    words += f" reorder {float(100 * action.reorder):g}%" if action.reorder is not None else ""
    return _tc(node, [f"qdisc replace dev {port.device} {_inner(port)} handle 3: {words}" for port in ports])


def undelay(node: Node, ports: Sequence[LabPort]) -> CommandBatch:
    """Remove the delay. A token bucket without an inner queue passes no frames: it gets a FIFO."""
    lines = [
        f"qdisc replace dev {port.device} {_inner(port)} handle 4: bfifo limit {port.shaping.limit_bytes}"
        if port.shaping
        else f"qdisc del dev {port.device} root"
        for port in ports
    ]
    return _tc(node, lines)


def down(node: Node, ports: Sequence[LabPort]) -> CommandBatch:
    """Take the links of ports down, at both ends of the cables."""
    return _ip(node, [f"link set dev {port.device} down" for port in ports])


def up(node: Node, ports: Sequence[LabPort]) -> CommandBatch:
    """Bring links of ports up. The kernel of a router has deleted routes with them: device/lab/links.py."""
    return _ip(node, [f"link set dev {port.device} up" for port in ports])


def _bucket(shaping: Shaping, bps: int, queue_bytes: int | None) -> str:
    frame_bytes = shaping.cut_bytes + shaping.overhead_bytes  # a shorter queue would pass no full frame
    limit = shaping.limit_bytes if queue_bytes is None else max(queue_bytes, frame_bytes)
    return f"tbf rate {bps}bit burst {shaping.burst_bytes} limit {limit} overhead {shaping.overhead_bytes}"


def _inner(port: LabPort) -> str:
    return "parent 2:1" if port.shaping else "root"


def _us(span_ns: int) -> str:
    return f"{span_ns / NS_PER_US:g}us"


def _tc(node: Node, lines: Sequence[str]) -> CommandBatch:
    return CommandBatch(("tc", "-n", node.namespace, "-batch", "-"), lines)


def _ip(node: Node, lines: Sequence[str]) -> CommandBatch:
    return CommandBatch(("ip", "-n", node.namespace, "-batch", "-"), lines)
