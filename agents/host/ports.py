"""The interfaces that an agent's ranks are behind: addresses come and go with a run, control keeps out.

Addresses that are not there are added with a lifetime that is renewed while the run goes on. So the kernel takes them
away from an agent that was killed, and nothing else has to know of them. Routes to ranks elsewhere on the link name
such an address as their source, and go with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from emulator.control import conversation as control
from emulator.errors import HostError
from emulator.host import iproute

LEASE_S = 180
"""What is left of an address after a crash, at most."""
LOOPBACK = "lo"
_ROUTE_PROTOCOL = 196  # rtnetlink(7): above 4 the kernel only keeps it, so that people see whose a route is
_MOST_LABEL = 15


@dataclass(frozen=True, slots=True)
class Ports:
    """Interfaces under test, by name; without any, ranks play over loopback only."""

    interfaces: Sequence[str]

    def check(self, controller: str) -> None:
        """The interfaces can be used, and the way to the controller is another one.

        Args:
            controller: what is dialled, HOST:PORT or unix:PATH.

        Raises:
            HostError: an interface is missing or down, or control would leave through one.
        """
        for interface in self.interfaces:
            if not iproute.is_up(interface):
                raise HostError(f"interface {interface} is down: ip link set {interface} up")
        if controller.startswith("unix:"):
            return
        for address in _numeric(controller.rpartition(":")[0]):
            way = iproute.egress_interface(address)
            if way in self.interfaces and way != LOOPBACK:
                raise HostError(
                    f"the way to the controller ({address}) leaves through {way}, which is under test: give the "
                    "controller an address on a management network, or this host a route to it there"
                )

    def devices(self, places: Sequence[control.RankPlace]) -> dict[str, str]:
        """Address → interface of every rank: the topology's name, or the one interface there is for the one named.

        Raises:
            HostError: the topology names an interface that this agent was not given.
        """
        if not self.interfaces:
            return self._over_loopback(places)
        named = {place.interface for place in places}
        if len(self.interfaces) == 1 and len(named) == 1:
            return {place.host: self.interfaces[0] for place in places}
        for place in places:
            if place.interface not in self.interfaces:
                given = ", ".join(self.interfaces)
                problem = f"rank {place.rank} is behind {place.interface}, the agent has {given}"
                raise HostError(f"{problem}: start it with --interface {place.interface}")
        return {place.host: place.interface for place in places}

    def _over_loopback(self, places: Sequence[control.RankPlace]) -> dict[str, str]:
        for place in places:
            if not ip_address(place.host).is_loopback:
                raise HostError(f"rank {place.rank} plays at {place.host}: start the agent with --interface NAME")
        return {place.host: LOOPBACK for place in places}


@contextlib.asynccontextmanager
async def leased(ports: Ports | None, setup: control.Setup) -> AsyncIterator[Mapping[str, str]]:
    """The interface of every address of a run, with the addresses there; added ones are gone afterwards.

    Raises:
        HostError: an address is missing and may not be added, or it is at no interface of the agent.
    """
    if ports is None:
        yield {}
        return
    devices = ports.devices(setup.ranks)
    lease = _lease(devices, setup.networks)
    await asyncio.to_thread(iproute.change, lease.begin)
    renewing = asyncio.create_task(_renew(lease))
    try:
        yield devices
    finally:
        renewing.cancel()
        iproute.change(lease.end, goes_on=True)


@dataclass(frozen=True, slots=True)
class _Lease:
    """`ip` commands: what makes the addresses be there, keeps them, takes them away."""

    begin: Sequence[str]
    keep: Sequence[str]
    end: Sequence[str]


def _lease(devices: Mapping[str, str], networks: Sequence[str]) -> _Lease:
    held = {interface: iproute.held_addresses(interface) for interface in set(devices.values())}
    added: dict[str, str] = {}
    for address, interface in devices.items():
        there = held[interface].get(address)
        if (there is None or not there.is_permanent) and not ip_address(address).is_loopback:
            added[address] = interface
    addresses = [f"address replace {_as_leased(address, interface)}" for address, interface in added.items()]
    routes = _routes(devices, networks)
    return _Lease(
        begin=addresses + [f"route replace {route}" for route in routes],
        keep=addresses + [f"route replace {route}" for route in routes if "expires" in route],
        end=[f"route del {route.partition(' expires ')[0]}" for route in routes]
        + [f"address del {address}/{_length(address)} dev {interface}" for address, interface in added.items()],
    )


def _as_leased(address: str, interface: str) -> str:
    lifetime = f"valid_lft {LEASE_S} preferred_lft {LEASE_S}"
    if ":" in address:
        return f"{address}/128 dev {interface} nodad noprefixroute {lifetime}"
    label = f" label {interface}:lease" if len(interface) + len(":lease") <= _MOST_LABEL else ""
    return f"{address}/32 dev {interface}{label} {lifetime}"


def _routes(devices: Mapping[str, str], networks: Sequence[str]) -> list[str]:
    """To ranks elsewhere on the link, as far as there are none: with several interfaces there is none for all."""
    if len(set(devices.values())) != 1:
        return []
    source, interface = next(iter(devices.items()))
    is_v6 = ":" in source
    known = iproute.routed_prefixes(interface, is_v6=is_v6)
    wanted = [ip_network(network) for network in networks]
    missing = [
        network
        for network in wanted
        if not network.is_loopback and not any(one.version == network.version and _is_in(network, one) for one in known)
    ]
    expiry = f" expires {LEASE_S}" if is_v6 else " scope link"
    return [f"{network} dev {interface} src {source} proto {_ROUTE_PROTOCOL}{expiry}" for network in missing]


def _is_in(inner: iproute.Prefix, outer: iproute.Prefix) -> bool:
    return inner.prefixlen >= outer.prefixlen and inner.network_address in outer


def _length(address: str) -> int:
    return 128 if ":" in address else 32


async def _renew(lease: _Lease) -> None:
    while lease.keep:
        await asyncio.sleep(LEASE_S / 3)
        with contextlib.suppress(HostError):  # the addresses live on for two more turns
            await asyncio.to_thread(iproute.change, lease.keep)


def _numeric(host: str) -> list[str]:
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise HostError(f"the controller's name {host} has no address ({error.strerror})") from error
    return sorted({str(entry[4][0]) for entry in found})
