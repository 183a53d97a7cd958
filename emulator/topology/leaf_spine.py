"""A regular leaf-spine network of any size, built from the few numbers under `fabric:` in a topology file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from itertools import islice

from emulator.topology.document import Document
from emulator.topology.file_format import FabricSection
from emulator.topology.hosts import HostEntry, read_domain, read_rate_bps
from emulator.topology.model import Host
from emulator.topology.network import End, Interface, Link, Network, Switch
from emulator.topology.safety import Network as AddressRange
from emulator.topology.safety import is_safe, unsafe_problem


@dataclass(frozen=True, slots=True)
class LeafSpine:
    """Hosts connected to leaves, and one link from every leaf to every spine.

    Attributes:
        hosts_per_leaf: hosts of a leaf; with `rails`, hosts of a pod, which has a leaf for each interface.
        interfaces: of each host; all at one leaf, or with `rails` interface i at leaf i of the pod.
        rate_bps, uplink_bps: of a link from host to leaf, and from leaf to spine.
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
        """Number of hosts."""
        return self.leaves * self.hosts_per_leaf // (self.interfaces if self.rails else 1)

    def leaf_of(self, host: int, interface: int) -> int:
        """Number of the leaf that an interface is connected to."""
        group = host // self.hosts_per_leaf
        return group * self.interfaces + interface if self.rails else group


def build_leaf_spine(
    document: Document, section: FabricSection, *, allowed: Sequence[AddressRange], ecmp_seed: int
) -> tuple[list[HostEntry], Network]:
    """Hosts h0, h1, …, leaves leaf0, …, spines spine0, …; every interface gets the next address of the prefix.

    Raises:
        TopologyError: the prefix is too small or not safe to send to, or the leaves do not form whole pods.
    """
    fabric = _fabric(document, section)
    addresses = _addresses(document, section.addresses, fabric, allowed)
    interfaces = {f"h{host}": tuple(_interfaces(fabric, addresses)) for host in range(fabric.hosts)}
    switches = [Switch(f"leaf{leaf}", fabric.kind) for leaf in range(fabric.leaves)]
    switches += [Switch(f"spine{spine}", fabric.kind) for spine in range(fabric.spines)]
    links = (*_host_links(fabric), *_uplinks(fabric))
    domain = read_domain(document, section.domain, ("fabric", "domain"))
    entries = [HostEntry(Host(name, fabric.rate_bps, ports, domain=domain)) for name, ports in interfaces.items()]
    return entries, Network(interfaces, tuple(switches), links, ecmp_seed=ecmp_seed)


def _fabric(document: Document, section: FabricSection) -> LeafSpine:
    rate_bps = read_rate_bps(document, section.rate, ("fabric", "rate"))
    fabric = LeafSpine(
        leaves=section.leaves,
        spines=section.spines,
        hosts_per_leaf=section.hosts_per_leaf,
        interfaces=section.interfaces,
        rails=section.rails,
        rate_bps=rate_bps,
        uplink_bps=read_rate_bps(document, section.uplink_rate, ("fabric", "uplink_rate")) or rate_bps,
        mtu=section.mtu,
        kind=section.kind,
    )
    if fabric.rails and fabric.leaves % fabric.interfaces:
        problem = f"{fabric.leaves} leaves cannot form pods of {fabric.interfaces}, one leaf per host interface"
        raise document.error(problem, ("fabric", "leaves"))
    return fabric


def _addresses(document: Document, text: str, fabric: LeafSpine, allowed: Sequence[AddressRange]) -> Iterator[str]:
    key = ("fabric", "addresses")
    try:
        prefix = ip_network(text)
    except ValueError as error:
        raise document.error(f"is not a prefix ({error}); write one such as 10.0.0.0/8", key) from error
    if not is_safe(prefix, allowed):
        raise document.error(unsafe_problem(prefix), key)
    needed = fabric.hosts * fabric.interfaces
    if prefix.num_addresses - 2 < needed:
        raise document.error(f"{prefix} has fewer than {needed} addresses; give a larger prefix: 10.0.0.0/8", key)
    return (str(address) for address in islice(prefix.hosts(), needed))


def _interfaces(fabric: LeafSpine, addresses: Iterator[str]) -> Iterator[Interface]:
    for number in range(fabric.interfaces):
        yield Interface(f"eth{number}", fabric.rate_bps, fabric.mtu, (next(addresses),), shared=True)


def _host_links(fabric: LeafSpine) -> Iterator[Link]:
    for host in range(fabric.hosts):
        for number in range(fabric.interfaces):
            leaf = End(f"leaf{fabric.leaf_of(host, number)}", f"h{host}.{number}")
            yield Link((End(f"h{host}", f"eth{number}"), leaf), fabric.rate_bps, fabric.mtu)


def _uplinks(fabric: LeafSpine) -> Iterator[Link]:
    for leaf in range(fabric.leaves):
        for spine in range(fabric.spines):
            ends = End(f"leaf{leaf}", f"up{spine}"), End(f"spine{spine}", f"down{leaf}")
            yield Link(ends, fabric.uplink_bps, fabric.mtu)
