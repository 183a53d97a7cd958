"""The hosts of a topology file with interfaces and addresses, and the policies by which ranks are placed on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network

from emulator.errors import PlanError
from emulator.topology.document import Document, KeyPath
from emulator.topology.file_format import DomainSection, HostSection, InterfaceSection
from emulator.topology.model import Domain, Host, Peer
from emulator.topology.network import Interface
from emulator.topology.safety import Network, is_safe, numeric_address, numeric_prefix, unsafe_problem
from emulator.units import parse_duration, parse_rate

UNLIMITED = 1 << 62
"""Capacity of a host without a limit on the number of ranks."""


def place_in_blocks(ranks: int, capacities: Sequence[int]) -> list[int]:
    """Host index per rank: consecutive ranks together, in shares as equal as the capacities allow.

    Raises:
        PlanError: the hosts have too few slots.
    """
    _require_room(ranks, capacities)
    placed: list[int] = []
    later, hosts = sum(capacities), sum(capacity > 0 for capacity in capacities)
    for host, capacity in enumerate(capacities):
        if not capacity:
            continue
        left, later = ranks - len(placed), later - capacity
        share, hosts = -(-left // hosts), hosts - 1
        placed += [host] * min(capacity, max(share, left - later))
    return placed


def place_round_robin(ranks: int, capacities: Sequence[int]) -> list[int]:
    """Host index per rank: one rank to each host in turn, skipping full hosts.

    Raises:
        PlanError: the hosts have too few slots.
    """
    _require_room(ranks, capacities)
    placed: list[int] = []
    used = [0] * len(capacities)
    while len(placed) < ranks:
        for host in range(len(capacities)):
            if used[host] < capacities[host] and len(placed) < ranks:
                used[host] += 1
                placed.append(host)
    return placed


def place_on_rails(ranks: int, capacities: Sequence[int], interfaces: Sequence[int]) -> list[int]:
    """Host index per rank: one rank per interface, host after host, as on servers with a NIC for each accelerator.

    With i interfaces per host, rank r uses interface r modulo i, which is its rail. An interface gets a second rank
    only if there are more ranks than interfaces.

    Raises:
        PlanError: the hosts have too few slots.
    """
    _require_room(ranks, capacities)
    ports = sum(count for count, capacity in zip(interfaces, capacities, strict=True) if capacity)
    layers = max(1, -(-ranks // max(1, ports)))
    while ranks > sum(map(min, capacities, (layers * count for count in interfaces))):
        layers += 1
    placed: list[int] = []
    for host, capacity in enumerate(capacities):
        placed += [host] * min(capacity, layers * interfaces[host], ranks - len(placed))
    return placed


def place_as_mapped(ranks: int, host_of: Mapping[int, int], capacities: Sequence[int]) -> list[int]:
    """Host index per rank from an explicit mapping; ranks that the trace does not have are ignored.

    Raises:
        PlanError: a rank has no host, or a host gets more ranks than it has slots for.
    """
    missing = next((rank for rank in range(ranks) if rank not in host_of), None)
    if missing is not None:
        raise PlanError(
            f"rank {missing} has no host: the topology's placement covers only {len(host_of)} of {ranks} ranks"
        )
    placed = [host_of[rank] for rank in range(ranks)]
    for host, count in sorted(Counter(placed).items()):
        if count > capacities[host]:
            raise PlanError(f"the placement puts {count} ranks on hosts[{host}], which has room for {capacities[host]}")
    return placed


PLACEMENTS: Mapping[str, Callable[[int, Sequence[int]], list[int]]] = {
    "block": place_in_blocks,
    "round_robin": place_round_robin,
}


def _require_room(ranks: int, capacities: Sequence[int]) -> None:
    if ranks > sum(capacities):
        raise PlanError(
            f"the trace has {ranks} ranks, but the hosts have room for only {sum(capacities)}: add hosts or slots"
        )


FIRST_INTERFACE = "eth0"
"""Name of the only interface of a host that does not name it."""


@dataclass(frozen=True, slots=True)
class HostEntry:
    """A host and its place in the file.

    Attributes:
        host: name, interfaces and rate.
        slots: most ranks it takes.
        key: path of its entry, for error messages.
        address_share: (first, step) of the addresses of every interface that ranks take.
    """

    host: Host
    slots: int = UNLIMITED
    key: KeyPath = ()
    address_share: tuple[int, int] = (0, 1)

    @property
    def capacities(self) -> list[int]:
        """Per interface, how many ranks it has addresses for."""
        first, step = self.address_share
        totals = map(interface_capacity, self.host.interfaces)
        return [
            total if interface.shared else max(0, (total - first + step - 1) // step)
            for interface, total in zip(self.host.interfaces, totals, strict=True)
        ]

    @property
    def capacity(self) -> int:
        """How many ranks the host takes."""
        return min(self.slots, sum(self.capacities))


def interface_capacity(interface: Interface) -> int:
    """How many ranks an interface has addresses for."""
    if interface.shared:
        return UNLIMITED
    if interface.prefix is None:
        return len(interface.addresses)
    network = ip_network(interface.prefix)
    if network.num_addresses <= 2:
        return network.num_addresses
    return network.num_addresses - (2 if network.version == 4 else 1)


def read_hosts(document: Document, sections: Sequence[HostSection], *, allowed: Sequence[Network]) -> list[HostEntry]:
    """The hosts of a file.

    Args:
        document: the file, for error messages.
        sections: its `hosts`.
        allowed: networks that traffic may be sent to, in addition to the safe ones.

    Raises:
        TopologyError: a rate or address is wrong, a name or address is used twice, or traffic must not be sent to an
            address.
    """
    entries = [_host(document, section, ("hosts", number)) for number, section in enumerate(sections)]
    _refuse_duplicates(document, "host", [(entry.host.name, (*entry.key, "name")) for entry in entries])
    _check_addresses(document, entries, allowed)
    return entries


def common_rate_bps(interfaces: Iterable[Interface]) -> int | None:
    """The rate that all interfaces have, bit/s; None if they differ."""
    rates = {interface.rate_bps for interface in interfaces}
    return rates.pop() if len(rates) == 1 else None


def read_rate_bps(document: Document, text: str | None, key: KeyPath) -> int | None:
    """The rate of a host, interface or link, bit/s; None if not specified.

    Raises:
        TopologyError: it is not a rate, or it is 0.
    """
    rate_bps = document.parse(parse_rate, text, key)
    if rate_bps == 0:
        raise document.error("a port cannot have rate 0; delete the rate if it is unknown", key)
    return rate_bps


def read_domain(document: Document, section: DomainSection | None, key: KeyPath) -> Domain | None:
    """The scale-up domain of a host; None if it has none.

    Raises:
        TopologyError: its rate or latency is wrong.
    """
    if section is None:
        return None
    rate_bps = read_rate_bps(document, section.rate, (*key, "rate"))
    latency_ns = document.parse(parse_duration, section.latency, (*key, "latency"))
    assert rate_bps is not None  # both have a text
    assert latency_ns is not None
    return Domain(rate_bps, latency_ns)


def _host(document: Document, section: HostSection, key: KeyPath) -> HostEntry:
    if section.interfaces is None:
        ports = [_interface(document, FIRST_INTERFACE, section, key, section)]
    else:
        keys = [(*key, "interfaces", number) for number in range(len(section.interfaces))]
        ports = [
            _interface(document, each.name, each, at, section)
            for each, at in zip(section.interfaces, keys, strict=True)
        ]
        _refuse_duplicates(
            document, "interface", [(port.name, (*at, "name")) for port, at in zip(ports, keys, strict=True)]
        )
    peer = _peer(document, section, key)
    domain = read_domain(document, section.domain, (*key, "domain"))
    host = Host(section.name, common_rate_bps(ports), tuple(ports), storage=section.storage, peer=peer, domain=domain)
    return HostEntry(host, 0 if peer is not None else section.slots or UNLIMITED, key)


def _peer(document: Document, section: HostSection, key: KeyPath) -> Peer | None:
    if section.peer is None:
        return None
    assert section.address is not None  # HostSection requires it of peers
    address = _address(document, section.address, (*key, "address"))
    named = section.peer.exchange
    exchange = address if named is None else _address(document, named, (*key, "peer", "exchange"))
    return Peer(address, exchange, section.peer.port)


def _interface(
    document: Document, name: str, section: HostSection | InterfaceSection, key: KeyPath, host: HostSection
) -> Interface:
    """An interface; rate and MTU default to those of the host."""
    rate_bps = read_rate_bps(document, section.rate, (*key, "rate"))
    if rate_bps is None:
        rate_bps = read_rate_bps(document, host.rate, (*key[:2], "rate"))
    return Interface(
        name=name,
        rate_bps=rate_bps,
        mtu=host.mtu if section.mtu is None else section.mtu,
        addresses=_addresses(document, section, key),
        prefix=None if section.per_rank is None else _prefix(document, section.per_rank, (*key, "per_rank")),
        shared=section.address is not None,
    )


def _addresses(document: Document, section: HostSection | InterfaceSection, key: KeyPath) -> tuple[str, ...]:
    if section.address is not None:
        return (_address(document, section.address, (*key, "address")),)
    listed = section.addresses or ()
    return tuple(_address(document, text, (*key, "addresses", number)) for number, text in enumerate(listed))


def _address(document: Document, text: str, key: KeyPath) -> str:
    try:
        return numeric_address(text)
    except ValueError as error:
        raise document.error(f"{text!r} is not a numeric IP address", key) from error


def _prefix(document: Document, text: str, key: KeyPath) -> str:
    try:
        return numeric_prefix(text)
    except ValueError as error:
        raise document.error(f"{text!r} is not a prefix ({error}); write one such as 127.1.0.0/16", key) from error


def _refuse_duplicates(document: Document, what: str, names: Iterable[tuple[str, KeyPath]]) -> None:
    seen: set[str] = set()
    for name, key in names:
        if name in seen:
            raise document.error(f"there is already {'an' if what[0] in 'aeiou' else 'a'} {what} named {name!r}", key)
        seen.add(name)


def _check_addresses(document: Document, entries: Sequence[HostEntry], allowed: Sequence[Network]) -> None:
    """Every address is safe or allowed, and no two hosts share one."""
    owners = _AddressOwners()
    for entry in entries:
        for network in _networks(entry.host):
            if not is_safe(network, allowed):
                raise document.error(unsafe_problem(network), entry.key)
            other = owners.claim(network, entry.host.name)
            if other is not None:
                raise document.error(f"host {entry.host.name} and {other} share addresses", entry.key)
        if entry.host.peer is not None and not is_safe(exchange := ip_network(entry.host.peer.exchange), allowed):
            raise document.error(unsafe_problem(exchange), (*entry.key, "peer", "exchange"))


def _networks(host: Host) -> Iterator[Network]:
    for interface in host.interfaces:
        for text in (interface.prefix,) if interface.prefix else interface.addresses:
            yield ip_network(text)


class _AddressOwners:
    """Which host owns which address or prefix. Single addresses, of which there can be many, are looked up directly."""

    def __init__(self) -> None:
        self._single: dict[Network, str] = {}
        self._prefixes: list[tuple[Network, str]] = []

    def claim(self, network: Network, host: str) -> str | None:
        """Assign a network to `host`; returns the host that already owns part of it, if any."""
        is_single = network.num_addresses == 1
        known = self._prefixes if is_single else [*self._prefixes, *self._single.items()]
        other = next((name for held, name in known if network.overlaps(held)), self._single.get(network))
        if is_single:
            self._single.setdefault(network, host)
        else:
            self._prefixes.append((network, host))
        return other
