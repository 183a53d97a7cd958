"""Translates a profile into commands on the switches of a lab: those that apply each rule, and those that undo it.

Rules about ports (rates, delays, links) become commands of iproute2. A port of a lab has two queueing disciplines
(device/lab/recipe.py): the outer one, 1:, cuts GSO batches into frames; the inner one, 2:, shapes. Changing 2: keeps
its queue and its counters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from emulator.device.lab.model import HOST, Design, LabPort, Node, Shaping
from emulator.device.lab.recipe import exec_prefix
from emulator.device.lab.shaping import shape as shaping_of
from emulator.device.lab.shaping import slowed
from emulator.device.profile.nftables import CompiledRule, compile_rule, is_at_egress
from emulator.device.profile.profile import (
    Above,
    Command,
    Delay,
    Mark,
    Moment,
    Police,
    PortDown,
    ProfileRule,
    Schedule,
    Shape,
)
from emulator.host.tools import CommandBatch, here
from emulator.topology.network import End
from emulator.units import NS_PER_US
from emulator.visible import visible

_MOST_DELAYED_FRAMES = 1_000_000
THIS_HOST = Node("", HOST, "", ())
"""Where commands are run."""
_OF_PORTS = (Shape, Delay, PortDown)
"""Actions that a port can have once at a time."""


def shape_port(node: Node, rates: Sequence[tuple[LabPort, int]], queue_bytes: int | None) -> CommandBatch:
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
        lines.append(f"{where} handle 2: {_bucket(slowed(shaping), bps, queue_bytes)}")
    return _tc(node, lines)


def unshape_port(node: Node, ports: Sequence[LabPort]) -> CommandBatch:
    """Restore the rates of the links."""
    lines = [
        f"qdisc change dev {port.device} parent 1:1 handle 2: {_bucket(port.shaping, port.shaping.rate_bps, None)}"
        if port.shaping
        else f"qdisc del dev {port.device} root"
        for port in ports
    ]
    return _tc(node, lines)


def delay_port(node: Node, ports: Sequence[LabPort], action: Delay) -> CommandBatch:
    """Delay frames with netem, after the shaper of a port that has one."""
    words = f"netem limit {_MOST_DELAYED_FRAMES} delay {_us(action.delay_ns)}"
    words += f" {_us(action.jitter_ns)}" if action.jitter_ns else ""
    words += f" reorder {float(100 * action.reorder):g}%" if action.reorder is not None else ""
    return _tc(node, [f"qdisc replace dev {port.device} {_inner(port)} handle 3: {words}" for port in ports])


def undelay_port(node: Node, ports: Sequence[LabPort]) -> CommandBatch:
    """Remove the delay. A token bucket without an inner queue passes no frames: it gets a FIFO."""
    lines = [
        f"qdisc replace dev {port.device} {_inner(port)} handle 4: bfifo limit {port.shaping.limit_bytes}"
        if port.shaping
        else f"qdisc del dev {port.device} root"
        for port in ports
    ]
    return _tc(node, lines)


def port_down(node: Node, ports: Sequence[LabPort]) -> CommandBatch:
    """Take the links of ports down, at both ends of the cables."""
    return _ip(node, [f"link set dev {port.device} down" for port in ports])


def port_up(node: Node, ports: Sequence[LabPort]) -> CommandBatch:
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


@dataclass(frozen=True, slots=True)
class Change:
    """The effect of one rule on one switch.

    Attributes:
        ports: the ports that the rule applies to.
        start, stop: commands that apply it and undo it.
        check: commands that try `start` and leave nothing behind.
        counter: (nftables family, name) of the object that counts its frames; None if nothing counts them.
    """

    rule: ProfileRule
    node: Node
    ports: Sequence[LabPort]
    start: Sequence[CommandBatch]
    stop: Sequence[CommandBatch]
    check: Sequence[CommandBatch] = ()
    counter: tuple[str, str] | None = None

    @property
    def takes_links_down(self) -> bool:
        """Whether a router needs routes back when it ends."""
        return isinstance(self.rule.action, PortDown)

    @property
    def changes_qdiscs(self) -> bool:
        """Whether the kernel says when it begins and ends, as a queueing discipline of each of its ports changes."""
        return isinstance(self.rule.action, Shape | Delay)

    @property
    def may_stop_traffic(self) -> bool:
        """Whether flows may pause: nobody knows what a command does."""
        return isinstance(self.rule.action, PortDown | Command)

    def replaces(self, other: Change) -> bool:
        """Whether both do the same to a port: when this one starts, the other one ends."""
        is_same = self.node.name == other.node.name and type(self.rule.action) is type(other.rule.action)
        devices = {port.device for port in self.ports} & {port.device for port in other.ports}
        return is_same and isinstance(self.rule.action, _OF_PORTS) and bool(devices)


def plan_changes(schedule: Schedule, design: Design, nodes: Sequence[str], *, frame_bytes: int) -> list[Change]:
    """The changes that apply a schedule to a lab.

    Args:
        schedule: its rules.
        design: of the lab.
        nodes: switches that rules without a port apply to.
        frame_bytes: length on the wire of a full frame of the run.

    Raises:
        InputError: a port does not exist, a percentage refers to a port without a rate, two rules overlap, or this
            kind of switch does not support a rule; the error names file, line and key, or the event.
    """
    changes = [
        change
        for number, rule in enumerate(schedule.rules)
        if not isinstance(rule.action, Command)
        for change in _changes(schedule, rule, number, design, nodes, frame_bytes)
    ]
    _refuse_overlaps(schedule, changes)
    return changes


def plan_commands(schedule: Schedule) -> list[Change]:
    """The commands of a schedule, which need no lab.

    Raises:
        InputError: there is no such program here; the error names the event.
    """
    found = []
    for rule in schedule.rules:
        if isinstance(rule.action, Command):
            if here().which(rule.action.words[0]) is None:
                raise schedule.error(f"there is no program {visible(rule.action.words[0])!r} here", rule, "do")
            found.append(Change(rule, THIS_HOST, (), (), ()))
    return found


def nft(node: Node, text: str, *options: str) -> CommandBatch:
    """A call of nft in the namespace of a node.

    Args:
        node: host or switch.
        text: the script on standard input.
        options: further options.
    """
    return CommandBatch((*exec_prefix(node), "nft", *options, "-f", "-"), text.splitlines())


def _changes(
    schedule: Schedule, rule: ProfileRule, number: int, design: Design, nodes: Sequence[str], frame_bytes: int
) -> Iterator[Change]:
    leaving = _by_switch(schedule, rule, "port", rule.ports, design)
    arriving = _by_switch(schedule, rule, "arriving", rule.match.arriving, design)
    found = False
    for node in design.nodes:
        is_selected = node.name in leaving if leaving else node.name in arriving if arriving else node.name in nodes
        if node.is_host or not is_selected or (arriving and node.name not in arriving):
            continue
        found = True
        ports = leaving.get(node.name) or list(node.ports)
        if isinstance(rule.action, _OF_PORTS):
            yield _port_change(schedule, rule, node, ports)
        else:
            ingress = arriving.get(node.name, [])
            _refuse_arriving(schedule, rule, node, ingress)
            compiled = compile_rule(
                rule,
                number,
                kind=node.kind,
                ports=ports,
                arriving=ingress,
                rates=_rates(schedule, rule, ports),
                frame_bytes=frame_bytes,
            )
            yield _frame_change(rule, node, ports, compiled)
    if not found:
        raise schedule.error("no switch of the device under test has the ports of both `port` and `arriving`", rule)


def _by_switch(
    schedule: Schedule, rule: ProfileRule, key: str, ends: Sequence[End], design: Design
) -> dict[str, list[LabPort]]:
    found: dict[str, list[LabPort]] = {}
    for end in ends:
        node = next((node for node in design.nodes if node.name == end.node and not node.is_host), None)
        if node is None:
            switches = ", ".join(node.name for node in design.nodes if not node.is_host)
            raise schedule.error(f"there is no switch {end.node!r}; there are {switches}", rule, key)
        port = next((port for port in node.ports if port.name == end.port), None)
        if port is None:
            known = ", ".join(port.name for port in node.ports)
            raise schedule.error(f"switch {end.node} has no port {end.port!r}; it has {known}", rule, key)
        found.setdefault(end.node, []).append(port)
    return found


def _refuse_arriving(schedule: Schedule, rule: ProfileRule, node: Node, arriving: Sequence[LabPort]) -> None:
    if arriving and is_at_egress(rule, node.kind):
        problem = f"{node.name} ({node.kind}) applies this rule at egress, where the ingress port is unknown: delete it"
        raise schedule.error(problem, rule, "arriving")


def _frame_change(rule: ProfileRule, node: Node, ports: Sequence[LabPort], compiled: CompiledRule) -> Change:
    return Change(
        rule=rule,
        node=node,
        ports=ports,
        start=(nft(node, compiled.install()),),
        stop=(nft(node, compiled.remove()),),
        check=(nft(node, compiled.install(), "--check"),),
        counter=(compiled.family, compiled.counter),
    )


def _rates(schedule: Schedule, rule: ProfileRule, ports: Sequence[LabPort]) -> dict[str, int]:
    """Device → rate in bit/s, for a rule about frames above a rate."""
    match rule.action:
        case Police(Above(rate)):
            key: tuple[str, str] = ("police", "rate")
        case Mark(Above(rate)):
            key = ("mark", "above")
        case _:
            return {}
    return {port.device: _bps(schedule, rule, port, rate.of(_port_bps(port)), key) for port in ports}


def _port_change(schedule: Schedule, rule: ProfileRule, node: Node, ports: Sequence[LabPort]) -> Change:
    change = Change(rule, node, ports, (), ())
    match rule.action:
        case Shape(rate, queue_bytes):
            rates = [_bps(schedule, rule, p, rate.of(_port_bps(p)), ("shape", "rate")) for p in ports]
            start = shape_port(node, list(zip(ports, rates, strict=True)), queue_bytes)
            return replace(change, start=(start,), stop=(unshape_port(node, ports),))
        case Delay() as delay:
            start, stop = delay_port(node, ports, delay), undelay_port(node, ports)
            return replace(change, start=(start,), stop=(stop,), check=(start, stop))
    return replace(change, start=(port_down(node, ports),), stop=(port_up(node, ports),))


def _bps(schedule: Schedule, rule: ProfileRule, port: LabPort, bps: int | None, key: tuple[str, str]) -> int:
    if bps is None:
        raise schedule.error(
            f"is a share of the rate of {port.name}, which has no rate: write an absolute rate",
            rule,
            *key,
        )
    return bps


def _port_bps(port: LabPort) -> int | None:
    return port.shaping.rate_bps if port.shaping else None


def _refuse_overlaps(schedule: Schedule, changes: Sequence[Change]) -> None:
    """Refuse two rules that do the same to a port at the same time: ending one would end both."""
    in_force: dict[tuple[type, str, str], list[ProfileRule]] = {}
    for change in changes:
        if not isinstance(change.rule.action, _OF_PORTS):
            continue
        for port in change.ports:
            others = in_force.setdefault((type(change.rule.action), change.node.name, port.device), [])
            other = next((one for one in others if _overlap(one, change.rule)), None)
            if other is not None:
                end = End(change.node.name, port.name)
                raise schedule.error(f"{other.name!r} does the same to {end} at the same time", change.rule)
            others.append(change.rule)


def _overlap(one: ProfileRule, other: ProfileRule) -> bool:
    """Whether both are surely in force at once; of different iterations, only the run knows which comes first."""
    return _comes_before(one.start, other.end) and _comes_before(other.start, one.end)


def _comes_before(start: Moment | None, end: Moment | None) -> bool:
    if start is None or end is None:
        return True
    return start.iteration == end.iteration and start.after_s < end.after_s
