"""The hosts of a topology file: their interfaces and addresses, checked, before any rank has its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any

from emulator.topology.document import Document, KeyPath
from emulator.topology.model import Host
from emulator.topology.network import Interface
from emulator.topology.placement import UNLIMITED
from emulator.topology.safety import Network, is_safe
from emulator.units import parse_rate

FIRST_INTERFACE = "eth0"
"""Name of the interface of a host that has just one and does not name it."""


@dataclass(frozen=True, slots=True)
class HostEntry:
    """A host, how many ranks it takes at most, and the key under which the file has it."""

    host: Host
    slots: int = UNLIMITED
    key: KeyPath = ()

    @property
    def capacities(self) -> list[int]:
        """Ranks that each interface has addresses for."""
        return [interface_capacity(interface) for interface in self.host.interfaces]

    @property
    def capacity(self) -> int:
        """Ranks that the host takes."""
        return min(self.slots, sum(self.capacities))


def interface_capacity(interface: Interface) -> int:
    """Ranks that an interface has addresses for."""
    if interface.shared:
        return UNLIMITED
    if interface.prefix is None:
        return len(interface.addresses)
    network = ip_network(interface.prefix)
    if network.num_addresses <= 2:
        return network.num_addresses
    return network.num_addresses - (2 if network.version == 4 else 1)


def read_hosts(document: Document, *, allowed: Sequence[Network]) -> list[HostEntry]:
    """The hosts of a file that has passed the schema.

    Raises:
        TopologyError: a rate, address or name is wrong or taken, or an address is none we may send to.
    """
    entries = [_host(document, index, entry) for index, entry in enumerate(document.value["hosts"])]
    _check_names(document, entries)
    _check_addresses(document, entries, allowed)
    return entries


def common_rate_bps(interfaces: Iterable[Interface]) -> int | None:
    """The rate of all of them; None if they differ."""
    rates = {interface.rate_bps for interface in interfaces}
    return rates.pop() if len(rates) == 1 else None


def read_rate_bps(document: Document, entry: Mapping[str, Any], key: KeyPath, *, name: str = "rate") -> int | None:
    """The rate of a host, interface or link, bit/s; None if it is left out.

    Raises:
        TopologyError: it is not a rate, or 0.
    """
    if name not in entry:
        return None
    try:
        rate_bps = parse_rate(entry[name])
    except ValueError as error:
        raise document.error(str(error), (*key, name)) from error
    if rate_bps == 0:
        raise document.error("a port with rate 0 carries nothing; leave the rate out where it is unknown", (*key, name))
    return rate_bps


def _host(document: Document, index: int, entry: Mapping[str, Any]) -> HostEntry:
    key = ("hosts", index)
    if "interfaces" in entry:
        listed = list(enumerate(entry["interfaces"]))
        ports = tuple(_interface(document, each, (*key, "interfaces", n), entry) for n, each in listed)
    else:
        ports = (_interface(document, {**entry, "name": FIRST_INTERFACE}, key, entry),)
    host = Host(entry["name"], common_rate_bps(ports), ports)
    _check_interface_names(document, ports, key)
    return HostEntry(host, entry.get("slots", UNLIMITED), key)


def _interface(document: Document, entry: Mapping[str, Any], key: KeyPath, host: Mapping[str, Any]) -> Interface:
    """An interface; what it leaves out of rate and MTU the host's entry may say for all."""
    rate_bps = read_rate_bps(document, entry, key)
    if rate_bps is None:
        rate_bps = read_rate_bps(document, host, key[:2])
    addresses, prefix = _addresses(document, entry, key)
    return Interface(
        name=entry["name"],
        rate_bps=rate_bps,
        mtu=entry.get("mtu", host.get("mtu")),
        addresses=addresses,
        prefix=prefix,
        shared="address" in entry,
    )


def _addresses(document: Document, entry: Mapping[str, Any], key: KeyPath) -> tuple[tuple[str, ...], str | None]:
    if "address" in entry:
        return (_address(document, entry["address"], (*key, "address")),), None
    if "addresses" in entry:
        return tuple(
            _address(document, text, (*key, "addresses", n)) for n, text in enumerate(entry["addresses"])
        ), None
    return (), _prefix(document, entry["per_rank"], (*key, "per_rank"))


def _address(document: Document, text: str, key: KeyPath) -> str:
    try:
        return str(ip_address(text))
    except ValueError as error:
        raise document.error(f"{text!r} is not a numeric IP address", key) from error


def _prefix(document: Document, text: str, key: KeyPath) -> str:
    try:
        return str(ip_network(text))
    except ValueError as error:
        raise document.error(f"{text!r} is not a prefix ({error}); write one as 127.1.0.0/16", key) from error


def _check_names(document: Document, entries: Sequence[HostEntry]) -> None:
    seen: set[str] = set()
    for entry in entries:
        if entry.host.name in seen:
            raise document.error(f"a host named {entry.host.name!r} is there already", (*entry.key, "name"))
        seen.add(entry.host.name)


def _check_interface_names(document: Document, interfaces: Sequence[Interface], key: KeyPath) -> None:
    names = [interface.name for interface in interfaces]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise document.error(f"an interface named {name!r} is there already", (*key, "interfaces", number, "name"))


def _check_addresses(document: Document, entries: Sequence[HostEntry], allowed: Sequence[Network]) -> None:
    """Every address is one we may send to, and no two interfaces share one."""
    taken = _Taken()
    for entry in entries:
        for network in _networks(entry.host):
            if not is_safe(network, allowed):
                shown = network if network.num_addresses > 1 else network.network_address
                problem = f"{shown} is outside loopback, 198.18.0.0/15, documentation and private ranges"
                raise document.error(f"{problem}: name its prefix with --allow-network", entry.key)
            other = taken.claim(network, entry.host.name)
            if other is not None:
                raise document.error(f"host {entry.host.name} and {other} have addresses in common", entry.key)


def _networks(host: Host) -> Iterable[Network]:
    for interface in host.interfaces:
        for text in (interface.prefix,) if interface.prefix else interface.addresses:
            yield ip_network(text)


class _Taken:
    """Addresses and prefixes with their owners; single addresses, of which there can be many, are found at once."""

    def __init__(self) -> None:
        self._single: dict[Network, str] = {}
        self._prefixes: list[tuple[Network, str]] = []

    def claim(self, network: Network, host: str) -> str | None:
        """Take it for `host`; the name of whoever has some of it already."""
        is_single = network.num_addresses == 1
        known = self._prefixes if is_single else [*self._prefixes, *self._single.items()]
        other = next((name for held, name in known if network.overlaps(held)), self._single.get(network))
        if is_single:
            self._single.setdefault(network, host)
        else:
            self._prefixes.append((network, host))
        return other
