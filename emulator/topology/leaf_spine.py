"""A regular leaf-spine of any size from a few numbers: `fabric:` in a topology file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from itertools import islice
from typing import Any

from emulator.topology.document import Document
from emulator.topology.hosts import HostEntry, read_rate_bps
from emulator.topology.model import Host
from emulator.topology.network import End, Interface, Link, Network, Switch
from emulator.topology.safety import Network as AddressRange
from emulator.topology.safety import is_safe

BENCHMARK_PREFIX = "198.18.0.0/15"
"""RFC 2544: addresses for benchmarks."""
_KEY = ("fabric",)


@dataclass(frozen=True, slots=True)
class Fabric:
    """Hosts on leaves, every leaf joined with every spine by one link.

    Attributes:
        hosts_per_leaf: with `rails` hosts of a pod, which has a leaf for each interface.
        interfaces: of a host; all at one leaf, or with `rails` interface i at leaf i of the pod.
    """

    leaves: int
    spines: int
    hosts_per_leaf: int
    interfaces: int
    rails: bool
    rate_bps: int | None
    uplink_bps: int | None
    mtu: int | None
    kind: str

    @property
    def hosts(self) -> int:
        """How many there are."""
        return self.leaves * self.hosts_per_leaf // (self.interfaces if self.rails else 1)

    def leaf_of(self, host: int, interface: int) -> int:
        """The leaf an interface is plugged into."""
        group = host // self.hosts_per_leaf
        return group * self.interfaces + interface if self.rails else group


def read_fabric(document: Document, *, allowed: Sequence[AddressRange]) -> tuple[list[HostEntry], Network]:
    """Hosts h0, h1, …, leaves leaf0, …, spines spine0, …; every interface has the next address of a prefix.

    Raises:
        TopologyError: too few addresses, none we may send to, or leaves that do not make whole pods.
    """
    fabric = _fabric(document, document.value["fabric"])
    addresses = _addresses(document, fabric, allowed)
    interfaces = {f"h{host}": tuple(_interfaces(fabric, addresses)) for host in range(fabric.hosts)}
    switches = [Switch(f"leaf{leaf}", fabric.kind) for leaf in range(fabric.leaves)]
    switches += [Switch(f"spine{spine}", fabric.kind) for spine in range(fabric.spines)]
    links = (*_host_links(fabric), *_uplinks(fabric))
    seed = document.value.get("ecmp", {}).get("seed", 0)
    entries = [HostEntry(Host(name, fabric.rate_bps, ports)) for name, ports in interfaces.items()]
    return entries, Network(interfaces, tuple(switches), links, ecmp_seed=seed)


def _fabric(document: Document, entry: Mapping[str, Any]) -> Fabric:
    rate_bps = read_rate_bps(document, entry, _KEY)
    fabric = Fabric(
        leaves=entry["leaves"],
        spines=entry["spines"],
        hosts_per_leaf=entry["hosts_per_leaf"],
        interfaces=entry.get("interfaces", 1),
        rails=entry.get("rails", False),
        rate_bps=rate_bps,
        uplink_bps=read_rate_bps(document, entry, _KEY, name="uplink_rate") or rate_bps,
        mtu=entry.get("mtu"),
        kind=entry.get("kind", "router"),
    )
    if fabric.rails and fabric.leaves % fabric.interfaces:
        problem = f"{fabric.leaves} leaves do not make pods of {fabric.interfaces}, one for each interface of a host"
        raise document.error(problem, (*_KEY, "leaves"))
    return fabric


def _addresses(document: Document, fabric: Fabric, allowed: Sequence[AddressRange]) -> Iterator[str]:
    key = (*_KEY, "addresses")
    try:
        prefix = ip_network(document.value["fabric"].get("addresses", BENCHMARK_PREFIX))
    except ValueError as error:
        raise document.error(f"is not a prefix ({error}); write one as 10.0.0.0/8", key) from error
    if not is_safe(prefix, allowed):
        problem = f"{prefix} is outside loopback, 198.18.0.0/15, documentation and private ranges"
        raise document.error(f"{problem}: name its prefix with --allow-network", key)
    needed = fabric.hosts * fabric.interfaces
    if prefix.num_addresses - 2 < needed:
        raise document.error(f"{prefix} has no {needed} addresses; give a larger prefix, as 10.0.0.0/8", key)
    return (str(address) for address in islice(prefix.hosts(), needed))


def _interfaces(fabric: Fabric, addresses: Iterator[str]) -> Iterator[Interface]:
    for number in range(fabric.interfaces):
        yield Interface(f"eth{number}", fabric.rate_bps, fabric.mtu, (next(addresses),), shared=True)


def _host_links(fabric: Fabric) -> Iterator[Link]:
    for host in range(fabric.hosts):
        for number in range(fabric.interfaces):
            leaf = End(f"leaf{fabric.leaf_of(host, number)}", f"h{host}.{number}")
            yield Link((End(f"h{host}", f"eth{number}"), leaf), fabric.rate_bps, fabric.mtu)


def _uplinks(fabric: Fabric) -> Iterator[Link]:
    for leaf in range(fabric.leaves):
        for spine in range(fabric.spines):
            ends = End(f"leaf{leaf}", f"up{spine}"), End(f"spine{spine}", f"down{leaf}")
            yield Link(ends, fabric.uplink_bps, fabric.mtu)
