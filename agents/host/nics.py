"""Facts about the interfaces that carry the addresses of an agent's ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_address

from emulator.errors import HostError
from emulator.host import iproute
from emulator.host.ethtool import nic_facts
from emulator.host.nic import NicFacts

_LOOPBACK = "lo"


def nics_of(addresses: Iterable[str], devices: Mapping[str, str]) -> list[NicFacts]:
    """Facts of every interface that carries one of the addresses, sorted by name. Unknown facts are omitted.

    Args:
        addresses: numeric IP addresses.
        devices: address → interface, as far as it is known already.
    """
    wanted = set(addresses)
    elsewhere = {address for address in wanted if address not in devices and not ip_address(address).is_loopback}
    held = _holders() if elsewhere else {}
    names = {devices[address] for address in wanted if address in devices}
    names |= {held[address] for address in elsewhere if address in held}
    if any(ip_address(address).is_loopback for address in wanted - devices.keys()):
        names.add(_LOOPBACK)
    return [nic_facts(name) for name in sorted(names)]


def _holders() -> Mapping[str, str]:
    try:
        return iproute.holders()
    except HostError:  # without the ip command the interfaces stay unknown
        return {}
