"""Interfaces under test that an agent's ranks use; the control stream must not leave through them; and their facts."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Protocol

from emulator.control.conversation import Port
from emulator.errors import HostError
from emulator.host import iproute
from emulator.host.nic import nic_facts
from emulator.host.nic_facts import NicFacts

LOOPBACK = "lo"


class AddressUser(Protocol):
    """Who plays at an address of an interface: a rank, or a flow."""

    @property
    def title(self) -> str:
        """For messages."""
        ...

    @property
    def host(self) -> str:
        """Numeric IP address."""
        ...

    @property
    def interface(self) -> str:
        """Of the topology's host; "" where the topology names none."""
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    """Interfaces under test, by name; if empty, ranks play over loopback only."""

    interfaces: Sequence[str]

    def check(self, controller: str) -> None:
        """Check that the interfaces can be used and that the route to the controller does not use one of them.

        Args:
            controller: address of the controller, HOST:PORT or unix:PATH.

        Raises:
            HostError: an interface is missing or down, or the control stream would leave through one.
        """
        for interface in self.interfaces:
            if not iproute.is_up(interface):
                raise HostError(f"interface {interface} is down: ip link set {interface} up")
        if not self.interfaces or controller.startswith("unix:"):
            return
        for address in _numeric(controller.rpartition(":")[0]):
            leaving = iproute.egress_interface(address)
            if leaving in self.interfaces and leaving != LOOPBACK:
                raise HostError(
                    f"the route to the controller ({address}) leaves through {leaving}, which is under test: use an "
                    f"address of the controller on a management network, or add a route to it there"
                )

    def offered(self) -> list[Port]:
        """What the controller must know to plan with these interfaces."""
        return [_offered(interface) for interface in self.interfaces]

    def devices(self, places: Sequence[AddressUser]) -> dict[str, str]:
        """Address → interface of every rank and flow: by the topology's name, or the only interface for the only name.

        Raises:
            HostError: the topology names an interface that this agent does not have, or an address needs --interface.
        """
        if not self.interfaces:
            return self._over_loopback(places)
        named = {place.interface for place in places}
        if len(self.interfaces) == 1 and len(named) == 1:
            return {place.host: self.interfaces[0] for place in places}
        for place in places:
            if place.interface not in self.interfaces:
                given = ", ".join(self.interfaces)
                problem = f"{place.title} uses {place.interface}, but the agent has {given}"
                raise HostError(f"{problem}: start it with --interface {place.interface}")
        return {place.host: place.interface for place in places}

    def _over_loopback(self, places: Sequence[AddressUser]) -> dict[str, str]:
        for place in places:
            if not ip_address(place.host).is_loopback:
                raise HostError(f"{place.title} plays at {place.host}: start the agent with --interface NAME")
        return {place.host: LOOPBACK for place in places}


def _offered(interface: str) -> Port:
    facts = nic_facts(interface)
    held = [one for one in iproute.held_addresses(interface) if not ip_address(one).is_link_local]
    return Port(interface, held, facts.speed_bps or 0, facts.mtu or 0)


def _numeric(host: str) -> list[str]:
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        reason = getattr(error, "strerror", error)
        raise HostError(f"the controller's name {host} cannot be resolved ({reason})") from error
    return sorted({str(entry[4][0]) for entry in found})


_LOOPBACK = "lo"


def nics_of(
    addresses: Iterable[str],
    devices: Mapping[str, str],
    *,
    holders: Callable[[], Mapping[str, str]] = iproute.holders,
    facts: Callable[[str], NicFacts] = nic_facts,
) -> list[NicFacts]:
    """Facts of every interface that carries one of the addresses, sorted by name. Unknown facts are omitted.

    Args:
        addresses: numeric IP addresses.
        devices: address → interface, as far as it is known already.
        holders, facts: see iproute.holders and nic_facts.
    """
    wanted = set(addresses)
    elsewhere = {address for address in wanted if address not in devices and not ip_address(address).is_loopback}
    held = _held(holders) if elsewhere else {}
    names = {devices[address] for address in wanted if address in devices}
    names |= {held[address] for address in elsewhere if address in held}
    if any(ip_address(address).is_loopback for address in wanted - devices.keys()):
        names.add(_LOOPBACK)
    return [facts(name) for name in sorted(names)]


def _held(holders: Callable[[], Mapping[str, str]]) -> Mapping[str, str]:
    try:
        return holders()
    except HostError:  # without the ip command the interfaces stay unknown
        return {}
