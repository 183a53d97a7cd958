"""BGP in the routers of a lab, by FRR, as data centres use it (RFC 7938), with BFD if the topology says so.

Every router has daemons of its own in its namespace. Their configurations, logs and sockets are in the lab's folder,
part of which they see as /run and /var/tmp, where FRR writes.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from emulator.device.lab.model import ROUTER, Design, LabPort, Node
from emulator.device.lab.recipe import exec_prefix
from emulator.errors import HostError
from emulator.host.tools import CommandBatch, attempt, listed, require_tools, run
from emulator.topology.network import Bfd
from emulator.units import NS_PER_MS

_DAEMONS = Path("/usr/lib/frr")
_ZEBRA, _BFDD, _BGPD = (str(_DAEMONS / name) for name in ("zebra", "bfdd", "bgpd"))
_SEEN = Path("/run/frr")
_IN_ITS_FOLDER = """mount -n --bind "$0" /var/tmp && mount -n --bind "$0" /run && { chrt --rr --pid 1 $$
"$@" 2>/run/said || { tail -n 1 /run/said >&2; exit 1; }; }"""
"""Before all other processes where that is allowed: a router that waits for a core seems dead to its neighbours.

FRR warns of much that is no error; what it says last is why it fails.
"""
_USER = "frr"
_FIRST_AS = 4_200_000_000
"""Of those for private use (RFC 6996)."""
_MOST_PATHS = 64
_OLDEST = 7, 5
"""The first version with profiles of BFD; older ones ignore what they do not know, and go on."""
_WITHOUT_GROUPS = "no zebra nexthop kernel enable"
"""A port that goes down takes its hop out of the kernel's groups for good: zebra 8.4 does not put it back."""
CONVERGENCE_TIMEOUT_S = 30.0
_PAUSE_S = 0.05


def version() -> str:
    """The version of FRR.

    Raises:
        HostError: it is not installed, or too old.
    """
    require_tools((_ZEBRA, _BGPD, _BFDD, "vtysh"))
    said = run(CommandBatch((_ZEBRA, "--version")))  # zebra version 8.4.4
    found = re.search(r"version ((\d+)\.(\d+)\S*)", said)
    if found is None or (int(found[2]), int(found[3])) < _OLDEST:
        is_there = f"here is {found[1]}" if found else f"{_ZEBRA} says {said.strip()[:40]!r}"
        raise HostError(f"routers need FRR {'.'.join(map(str, _OLDEST))} or later, {is_there}: install a newer one")
    return found[1]


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
        HostError: one of them is not there in time, or a daemon has ended.
    """
    deadline = time.monotonic() + CONVERGENCE_TIMEOUT_S
    for node in _routers(design):
        while missing := _missing_route(node) or _missing_watch(node, design, folder):
            if ended := _ended(node, design, folder):
                raise HostError(f"{ended} of router {node.name} has ended: take the lab down and up again")
            if time.monotonic() > deadline:
                problem = f"router {node.name} has no {missing} after {CONVERGENCE_TIMEOUT_S:g} s"
                raise HostError(f"{problem}: a link is down, or frames are lost; take the lab down and up again")
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
    if design.has_ipv6:
        yield from (" exit-address-family", " address-family ipv6 unicast", "  neighbor routers activate")
        yield from ("  redistribute kernel", f"  maximum-paths {_MOST_PATHS}")


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
    own.chmod(0o755)  # whatever the umask, it is /run to daemons that are not root
    try:
        shutil.chown(seen, _USER, _USER)
    except LookupError as error:
        raise HostError(f"FRR has no user {_USER} on this host: install it as a package") from error
    for daemon, lines in daemons(node, design, number).items():
        file = seen / f"{Path(daemon).name}.conf"
        file.write_text("".join(f"{line}\n" for line in lines))
        file.chmod(0o644)
        run(daemon_batch(node, daemon, own))


def _routers(design: Design) -> list[Node]:
    return [node for node in design.nodes if node.kind == ROUTER and node.ports]


def _towards_routers(node: Node, design: Design) -> list[LabPort]:
    return [port for port in node.ports if design.node(port.peer.node).kind == ROUTER]


def _missing_route(node: Node) -> str | None:
    """The first route that a router should have learnt, and has not, or not with all of its hops."""
    known = {}
    for family in ("-4", "-6"):
        asked = ("ip", "-n", node.namespace, "-json", family, "route", "show", "proto", "bgp")
        for route in listed(CommandBatch(asked)):
            known[route["dst"]] = {(hop.get("dev"), hop.get("gateway")) for hop in route.get("nexthops", [route])}
    for route in node.routes:
        hops = {(hop.device, hop.address) for hop in route.hops}
        if route.is_learned and known.get(route.prefix.removesuffix("/128" if ":" in route.prefix else "/32")) != hops:
            return f"route to {route.prefix} via {', '.join(hop.device for hop in route.hops)}"
    return None


def _ended(node: Node, design: Design, folder: Path) -> str | None:
    """The first daemon of a router that does not run any more; not one that has ended before it said that it runs."""
    for daemon in daemons(node, design, 0):
        name = Path(daemon).name
        file = folder / node.namespace / _SEEN.name / f"{name}.pid"
        if file.exists():
            line = Path("/proc", file.read_text().strip() or "0", "cmdline")
            if not line.exists() or daemon.encode() not in line.read_bytes():  # that of a zombie is empty
                return name
    return None


def _missing_watch(node: Node, design: Design, folder: Path) -> str | None:
    """The first port of a router whose link BFD should watch, and does not."""
    if design.routing is None or design.routing.bfd is None:
        return None
    asked = ("timeout", "5", "vtysh", "-d", "bfdd", "-c", "show bfd peers json")
    printed = attempt(_entered(node, folder / node.namespace, "env", f"HOME={_SEEN}", *asked))
    try:
        up = {peer["interface"] for peer in json.loads(printed) if peer["status"] == "up"}
    except (ValueError, TypeError, KeyError):
        return f"answer of bfdd that is understood ({printed.strip()[:40]!r})"
    return next((f"BFD session at {p.device}" for p in _towards_routers(node, design) if p.device not in up), None)
