"""BGP in the routers of a lab, by FRR, as data centres use it (RFC 7938), with BFD if the topology says so.

Every router has daemons of its own in its namespace. Their configurations, logs and sockets are in the lab's folder,
part of which they see as /run and /var/tmp, where FRR writes.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from emulator.device.lab.model import ROUTER, Design, LabPort, Node
from emulator.device.lab.recipe import exec_prefix
from emulator.errors import HostError
from emulator.host.tools import CommandBatch, listed, require_tools, run
from emulator.topology.network import Bfd
from emulator.units import NS_PER_MS

_DAEMONS = Path("/usr/lib/frr")
_ZEBRA, _BFDD, _BGPD = (str(_DAEMONS / name) for name in ("zebra", "bfdd", "bgpd"))
_SEEN = Path("/run/frr")
_IN_ITS_FOLDER = 'mount -n --bind "$0" /var/tmp && mount -n --bind "$0" /run && { chrt --rr --pid 1 $$; exec "$@"; }'
"""Before all other processes where that is allowed: a router that waits for a core seems dead to its neighbours."""
_USER = "frr"
_FIRST_AS = 4_200_000_000
"""Of those for private use (RFC 6996)."""
_MOST_PATHS = 64
_WITHOUT_GROUPS = "no zebra nexthop kernel enable"
"""A port that goes down takes its hop out of the kernel's groups for good: zebra 8.4 does not put it back."""
CONVERGENCE_TIMEOUT_S = 30.0
_PAUSE_S = 0.05


def version() -> str:
    """The version of FRR.

    Raises:
        HostError: it is not installed.
    """
    require_tools((_ZEBRA, _BGPD, _BFDD, "vtysh"))
    return run(CommandBatch((_ZEBRA, "--version"))).split()[2]  # zebra version 8.4.4


def start(design: Design, folder: Path) -> None:
    """Start the daemons of all routers, and wait until they have found all routes.

    Args:
        design: of a lab whose nodes are there.
        folder: of the lab; each router gets one in it.

    Raises:
        HostError: a daemon does not start, or a route is not found in time.
    """
    numbers = as_numbers(design)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda node: _start(node, design, folder, numbers[node.name]), _routers(design)))
    await_routes(design, folder)


def await_routes(design: Design, folder: Path) -> None:
    """Wait until every router has all routes that the topology has, with all paths of equal cost, and BFD watches them.

    Args:
        design: of a lab whose routers run.
        folder: of the lab.

    Raises:
        HostError: one of them is not there in time.
    """
    deadline = time.monotonic() + CONVERGENCE_TIMEOUT_S
    for node in _routers(design):
        while missing := _missing_route(node) or _missing_watch(node, design, folder):
            if time.monotonic() > deadline:
                problem = f"router {node.name} has no {missing} after {CONVERGENCE_TIMEOUT_S:g} s"
                raise HostError(f"{problem}: a link is down, or FRR has ended; take the lab down and up again")
            time.sleep(_PAUSE_S)


def as_numbers(design: Design) -> Mapping[str, int]:
    """Router → the number of its autonomous system: its own for each with hosts, as for a leaf in RFC 7938.

    Routers without hosts that have the same neighbours, as spines have, share one. No path then leads through two of
    them: up, down and up again.
    """
    numbers: dict[object, int] = {}
    found = {}
    for node in _routers(design):
        has_hosts = any(not route.is_learned for route in node.routes)
        group = node.name if has_hosts else frozenset(port.peer.node for port in node.ports)
        found[node.name] = numbers.setdefault(group, _FIRST_AS + len(numbers))
    return found


def bgp_lines(node: Node, design: Design, number: int) -> Iterator[str]:
    """The configuration of a router's bgpd: it announces the routes of its hosts, which the lab writes.

    Args:
        node: the router.
        design: of its lab.
        number: of its autonomous system.
    """
    neighbours = [port.addresses[0].split(" peer ")[1].partition("/")[0] for port in _towards_routers(node, design)]
    yield from (f"hostname {node.namespace}", f"router bgp {number}")
    yield f" bgp router-id {node.ports[0].addresses[0].split()[0].partition('/')[0]}"
    yield from (" no bgp ebgp-requires-policy", " bgp bestpath as-path multipath-relax")
    yield from (" neighbor routers peer-group", " neighbor routers remote-as external")
    yield " neighbor routers advertisement-interval 0"
    yield from (" neighbor routers timers 3 9", " neighbor routers timers connect 1")
    if design.routing is not None and design.routing.bfd is not None:
        yield " neighbor routers bfd profile lab"
    yield from (f" neighbor {address} peer-group routers" for address in neighbours)
    yield from (" address-family ipv4 unicast", "  redistribute kernel", f"  maximum-paths {_MOST_PATHS}")


def bfd_lines(bfd: Bfd) -> Sequence[str]:
    """The configuration of bfdd; bgpd says with whom."""
    interval_ms = bfd.interval_ns // NS_PER_MS
    intervals = [f"  {way}-interval {interval_ms}" for way in ("receive", "transmit")]
    return ["bfd", " profile lab", f"  detect-multiplier {bfd.multiplier}", *intervals]


def daemons(node: Node, design: Design, number: int) -> Mapping[str, Sequence[str]]:
    """Daemon → its configuration, in the order in which they start."""
    bfd = design.routing.bfd if design.routing is not None else None
    watching = {_BFDD: bfd_lines(bfd)} if bfd is not None else {}
    return {
        _ZEBRA: [f"hostname {node.namespace}", _WITHOUT_GROUPS],
        **watching,
        _BGPD: list(bgp_lines(node, design, number)),
    }


def daemon_batch(node: Node, daemon: str, folder: Path) -> CommandBatch:
    """The command that starts a daemon, and returns when it runs.

    Args:
        node: the router.
        daemon: path of the program.
        folder: of the router's files.
    """
    name = Path(daemon).name
    files = ("-f", f"{_SEEN}/{name}.conf", "--log", f"file:{_SEEN}/{name}.log")
    return _entered(node, folder, daemon, "-d", "-P", "0", *files)


def _entered(node: Node, folder: Path, *command: str) -> CommandBatch:
    return CommandBatch((*exec_prefix(node), "sh", "-c", _IN_ITS_FOLDER, str(folder), *command))


def _start(node: Node, design: Design, folder: Path, number: int) -> None:
    own = folder / node.namespace
    seen = own / _SEEN.name
    seen.mkdir(parents=True)
    shutil.chown(seen, _USER, _USER)
    for daemon, lines in daemons(node, design, number).items():
        (seen / f"{Path(daemon).name}.conf").write_text("".join(f"{line}\n" for line in lines))
        run(daemon_batch(node, daemon, own))


def _routers(design: Design) -> list[Node]:
    return [node for node in design.nodes if node.kind == ROUTER and node.ports]


def _towards_routers(node: Node, design: Design) -> list[LabPort]:
    return [port for port in node.ports if design.node(port.peer.node).kind == ROUTER]


def _missing_route(node: Node) -> str | None:
    """The first route that a router should have learnt, and has not, or not with all of its hops."""
    known = {}
    for route in listed(CommandBatch(("ip", "-n", node.namespace, "-json", "route", "show", "proto", "bgp"))):
        known[route["dst"]] = {(hop.get("dev"), hop.get("gateway")) for hop in route.get("nexthops", [route])}
    for route in node.routes:
        hops = {(hop.device, hop.address) for hop in route.hops}
        if route.is_learned and known.get(route.prefix.removesuffix("/32")) != hops:
            return f"route to {route.prefix} via {', '.join(hop.device for hop in route.hops)}"
    return None


def _missing_watch(node: Node, design: Design, folder: Path) -> str | None:
    """The first port of a router whose link BFD should watch, and does not."""
    if design.routing is None or design.routing.bfd is None:
        return None
    asked = ("vtysh", "-d", "bfdd", "-c", "show bfd peers json")
    peers = listed(_entered(node, folder / node.namespace, "env", f"HOME={_SEEN}", *asked))
    up = {peer["interface"] for peer in peers if peer["status"] == "up"}
    return next((f"BFD session at {p.device}" for p in _towards_routers(node, design) if p.device not in up), None)
