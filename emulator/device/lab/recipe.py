"""The commands that make a lab from its design, as batches of iproute2: few processes, so a lab comes up quickly.

Open vSwitch as a lab's switch is its userspace datapath, with a database and daemons of the lab's own. The host's own
Open vSwitch, if it runs one, is not touched: everything is in the lab's folder and namespace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from emulator.device.lab.model import BRIDGE, OVS, ROUTER, Design, Hop, LabPort, Node, Shaping
from emulator.device.lab.shaping import merging_ns
from emulator.host.tools import CommandBatch

BRIDGE_DEVICE = "br0"
CUTTER_BPS = 100_000_000_000
"""Rate of the bucket that only cuts: practically unlimited."""
HASH_POLICY = 1
"""Of equal-cost paths: addresses, protocol and ports are hashed."""
FOREIGN_FILTERS = tuple(f"net.bridge.bridge-nf-call-{which}=0" for which in ("arptables", "iptables", "ip6tables"))
"""With br_netfilter loaded, a bridge runs every frame through iptables, which no switch does."""
_FIRST_TABLE = 1000


def cables(design: Design) -> CommandBatch:
    """Namespaces and the cables between them; no device ever appears in the host's own namespace."""
    lines = [f"netns add {node.namespace}" for node in design.nodes]
    for one, other in design.cables:
        ends = [(design.node(end.node), design.node(end.node).port(end.port)) for end in (one, other)]
        here, there = (f"{port.device} mtu {port.mtu} address {port.mac} netns {at.namespace}" for at, port in ends)
        lines.append(f"link add name {here} type veth peer name {there}")
    return CommandBatch(("ip", "-batch", "-"), lines)


def node_batches(node: Node, design: Design) -> Iterator[CommandBatch]:
    """Commands for a node's namespace, in order."""
    settings = [f"{name}={value}" for name, value in _sysctls(node, design)]
    devices = {port.device for port in node.ports}
    yield CommandBatch((*exec_prefix(node), "sysctl", "-q", "-w", *settings))
    if node.kind == BRIDGE:
        yield CommandBatch((*exec_prefix(node), "sysctl", "-q", "-e", "-w", *FOREIGN_FILTERS))
    rules = {family: [one for one in _rules(node) if (":" in one) is (family == "-6")] for family in ("-4", "-6")}
    words = ("ip", "-n", node.namespace, "-batch", "-")
    yield CommandBatch(words, [*_devices(node), *rules["-4"], *restored(node, devices)])
    if rules["-6"]:  # those of rules alone cannot be told from an address
        yield CommandBatch(("ip", "-6", *words[1:]), rules["-6"])
    if node.kind == BRIDGE:
        forwards = [f"fdb replace {one.mac} dev {one.device} master static" for one in node.forwards]
        yield CommandBatch(("bridge", "-n", node.namespace, "-batch", "-"), forwards)
    for port in node.ports:
        yield CommandBatch((*exec_prefix(node), "ethtool", "-K", port.device, *_offloads(node, design)))
    if node.is_host:
        yield from (_moderation(node, port) for port in node.ports)


def shaping_batch(node: Node) -> CommandBatch:
    """Rates of a node's ports; the last step, because Open vSwitch clears the queues of devices that it takes over."""
    lines = [line for port in node.ports if port.shaping for line in _qdiscs(port.device, port.shaping)]
    return CommandBatch(("tc", "-n", node.namespace, "-batch", "-"), lines)


def exec_prefix(node: Node) -> tuple[str, ...]:
    """The words before a command that run it inside a node's namespace."""
    return ("ip", "netns", "exec", node.namespace)


def _sysctls(node: Node, design: Design) -> Iterator[tuple[str, int]]:
    if not design.has_ipv6:
        yield from ((f"net.ipv6.conf.{which}.disable_ipv6", 1) for which in ("all", "default"))
    else:
        yield from ((f"net.ipv6.conf.{port.device}.accept_ra", 0) for port in node.ports)
        yield "net.ipv6.ip_nonlocal_bind", 1  # the only way for IPv6 to bind to an address of a local prefix
    if node.is_host:
        yield from (("net.ipv4.conf.all.arp_ignore", 1), ("net.ipv4.conf.all.arp_announce", 2))
    if node.kind == ROUTER:
        yield "net.ipv4.ip_forward", 1
        yield "net.ipv4.fib_multipath_hash_policy", HASH_POLICY
        yield "net.ipv4.fib_multipath_hash_seed", node.hash_seed
        if design.has_ipv6:
            yield from (("net.ipv6.conf.all.forwarding", 1), ("net.ipv6.fib_multipath_hash_policy", HASH_POLICY))
    yield from ((f"net.ipv4.conf.{which}.rp_filter", 0) for which in ("all", "default"))


def _devices(node: Node) -> Iterator[str]:
    yield "link set dev lo up"
    if node.kind == BRIDGE:
        mtu = max((port.mtu for port in node.ports), default=1500)
        yield f"link add {BRIDGE_DEVICE} type bridge stp_state 0 mcast_snooping 0"
        yield from (f"link set dev {port.device} master {BRIDGE_DEVICE}" for port in node.ports)
        yield f"link set dev {BRIDGE_DEVICE} mtu {mtu} up"
    for port in node.ports:
        yield f"link set dev {port.device} addrgenmode none up"


def restored(node: Node, devices: Collection[str]) -> Iterator[str]:
    """Lines for `ip -batch` that give ports their addresses, neighbours and routes; those that are there stay.

    Args:
        node: host or switch.
        devices: of the ports; those of other ports are not up, and the kernel refuses routes through them.
    """
    for port in node.ports:
        if port.device in devices:
            yield from _addresses(port)
    for one in node.neighbours:
        if one.device in devices:
            where = f"dev {one.device} nud permanent"
            yield f"neighbour replace {one.address} lladdr {one.mac} {where}"
    tables = _tables(node)
    by_default: dict[str, Hop] = {}
    for route in node.routes:
        hops = [hop for hop in route.hops if hop.device in devices]
        if not hops or route.is_learned:
            continue
        table = f" table {tables[route.source]}" if route.source is not None else ""
        yield f"route replace {route.prefix} {_way(hops)}{table}"
        if table:  # a socket without a bound address uses the first port that leads there
            by_default.setdefault(route.prefix, hops[0])
    for prefix, hop in by_default.items():
        yield f"route replace {prefix} {_way([hop])}"


def _addresses(port: LabPort) -> Iterator[str]:
    for address in port.addresses:
        yield f"address replace {address} dev {port.device}{' nodad' if ':' in address else ''}"
    for prefix in port.local:
        device = "lo" if ":" in prefix else port.device
        yield f"route replace local {prefix} dev {device} table local"


def _way(hops: Sequence[Hop]) -> str:
    ways = [f"via {hop.address} dev {hop.device} onlink" for hop in hops]
    return ways[0] if len(ways) == 1 else " ".join(f"nexthop {way}" for way in ways)


def _tables(node: Node) -> dict[str, int]:
    """Port → the table of its routes."""
    return {port.name: _FIRST_TABLE + number for number, port in enumerate(node.ports)}


def _rules(node: Node) -> Iterator[str]:
    """Of hosts with several ports: the source address chooses the table."""
    sources, tables = {route.source for route in node.routes}, _tables(node)
    for port in node.ports:
        if port.name in sources:
            for prefix in {*port.local, *(() if port.local else port.addresses)}:
                yield f"rule add from {prefix} table {tables[port.name]}"


def _offloads(node: Node, design: Design) -> Sequence[str]:
    """Frames are cut at the host's edge, as a NIC does; a host merges what it receives, a switch does not.

    The kernel merges only what comes from a device that does not promise to cut. Open vSwitch reads frames from a raw
    socket: their checksums must be there.
    """
    checksums = ("tx", "off") if any(one.kind == OVS for one in design.nodes) else ()
    merging = "on" if node.is_host else "off"
    return ("tx-udp-segmentation", "off", "tso", "off", "gro", merging, *checksums)


def _moderation(node: Node, port: LabPort) -> CommandBatch:
    """Like a NIC's interrupt moderation: frames that arrive close together are processed together.

    Not with napi_defer_hard_irqs: the kernel would then poll on a timer, which costs more than the frames.
    """
    hold_ns = merging_ns(port.shaping.rate_bps if port.shaping else None, mtu=port.mtu)
    return CommandBatch((*exec_prefix(node), "tee", f"/sys/class/net/{port.device}/gro_flush_timeout"), [str(hold_ns)])


def _qdiscs(device: str, shaping: Shaping) -> Iterator[str]:
    """A bucket that cuts long pieces into frames, and inside it the one that shapes."""
    yield (
        f"qdisc add dev {device} root handle 1: tbf rate {CUTTER_BPS}bit burst {shaping.cut_bytes}"
        f" limit {shaping.limit_bytes}"
    )
    yield (
        f"qdisc add dev {device} parent 1:1 handle 2: tbf rate {shaping.bucket_bps or shaping.rate_bps}bit"
        f" burst {shaping.burst_bytes}"
        f" limit {shaping.limit_bytes} overhead {shaping.overhead_bytes}"
    )


TOOLS = ("ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-ofctl")
SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")


def ovs_batches(node: Node, folder: Path) -> Iterator[CommandBatch]:
    """Commands that start the switch of a node and add its ports, in order.

    Args:
        node: of kind ovs; its devices are up.
        folder: existing folder for the files of this switch.
    """
    database, socket = folder / "conf.db", folder / "db.sock"
    entered = (*exec_prefix(node), "env", f"OVS_RUNDIR={folder}", f"OVS_LOGDIR={folder}")
    yield CommandBatch((*entered, "ovsdb-tool", "create", str(database), str(SCHEMA)))
    server = ("ovsdb-server", str(database), f"--remote=punix:{socket}")
    yield CommandBatch((*entered, *server, *_daemon(folder, "ovsdb-server")))
    client = (*entered, "ovs-vsctl", "--timeout=10", f"--db=unix:{socket}")
    yield CommandBatch((*client, "--no-wait", "init"))
    yield CommandBatch((*entered, "ovs-vswitchd", f"unix:{socket}", *_daemon(folder, "ovs-vswitchd")))
    yield CommandBatch((*client, *_plug(node)))
    number = _numbers(node)
    flows = [f"priority=1,dl_dst={one.mac},actions=output:{number[one.device]}" for one in node.forwards]
    yield CommandBatch((*entered, "ovs-ofctl", "add-flows", f"unix:{folder}/{BRIDGE_DEVICE}.mgmt", "-"), flows)


def version_batch() -> CommandBatch:
    """The command that prints the version, in its first line."""
    return CommandBatch(("ovs-vswitchd", "--version"))


def _daemon(folder: Path, name: str) -> tuple[str, ...]:
    own = (f"--unixctl={folder}/{name}.ctl", f"--pidfile={folder}/{name}.pid", f"--log-file={folder}/{name}.log")
    return (*own, "--detach", "--no-chdir", "-vconsole:off")


def _plug(node: Node) -> Iterator[str]:
    yield from ("add-br", BRIDGE_DEVICE, "--", "set", "bridge", BRIDGE_DEVICE, "datapath_type=netdev")
    for device, number in _numbers(node).items():
        yield from ("--", "add-port", BRIDGE_DEVICE, device)
        yield from ("--", "set", "interface", device, f"ofport_request={number}")


def _numbers(node: Node) -> dict[str, int]:
    """Device → its OpenFlow port number."""
    return {port.device: number for number, port in enumerate(node.ports, start=1)}
