"""Adds the addresses of an agent's ranks to its interfaces for the duration of a run.

Added addresses have a lifetime that is renewed while the run goes on, so the kernel removes those of an agent that was
killed. Routes to ranks elsewhere on the link use such an address as their source and disappear with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any

from agents.host.ports import Ports
from emulator.control import conversation as control
from emulator.errors import HostError
from emulator.host import iproute

LEASE_S = 180
"""Lifetime of an added address: the longest that it remains after a crash."""
_ROUTE_PROTOCOL = 196  # rtnetlink(7): above 4 the kernel only stores it; it shows people who added a route
_SECOND_METRIC = 2048
"""Of routes from second addresses, above that of IPv6 by default: traffic without an address takes the first ones."""
_LONGEST_LABEL = 15


@contextlib.asynccontextmanager
async def leased(
    ports: Ports | None, setup: control.Setup, *, kernel: Any = iproute
) -> AsyncIterator[Mapping[str, str]]:
    """Add the addresses of a run; yields address → interface. Addresses that were added are removed afterwards.

    `kernel` has the functions of `emulator.host.iproute`.

    Raises:
        HostError: an address is missing and cannot be added, or none of the agent's interfaces fits it.
    """
    if ports is None:
        yield {}
        return
    devices = ports.devices(setup.address_users)
    lease = _lease(devices, setup, kernel)
    with contextlib.ExitStack() as held:
        for address in devices:
            held.enter_context(_held(address))
        await asyncio.to_thread(kernel.change, lease.begin)
        renewing = asyncio.create_task(_renew(lease, kernel))
        try:
            yield devices
        finally:
            renewing.cancel()
            kernel.change(lease.end, goes_on=True)


def _held(address: str) -> socket.socket:
    """Keep other agents of this network namespace from the address, which one run at a time can have.

    An abstract name (unix(7)) belongs to the namespace, leaves no file, and goes with the process.
    """
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        holder.bind(f"\0charkha-address-{address}")
    except OSError as error:
        holder.close()
        raise HostError(
            f"another agent of this host plays a run at {address}: wait until it ends, or stop it"
        ) from error
    return holder


@dataclass(frozen=True, slots=True)
class _Lease:
    """`ip` commands that add the addresses and routes, renew them, and remove them."""

    begin: Sequence[str]
    keep: Sequence[str]
    end: Sequence[str]


def _lease(devices: Mapping[str, str], setup: control.Setup, kernel: Any) -> _Lease:
    devices = {address: interface for address, interface in devices.items() if not ip_address(address).is_loopback}
    held = {interface: kernel.held_addresses(interface) for interface in set(devices.values())}
    added: dict[str, str] = {}
    for address, interface in devices.items():
        there = held[interface].get(address)
        if there is None or not there.is_permanent:
            added[address] = interface
    addresses = [f"address replace {_as_leased(address, interface)}" for address, interface in added.items()]
    seconds = {place.alternate for place in setup.ranks}
    first = {address: interface for address, interface in devices.items() if address not in seconds}
    second = {address: interface for address, interface in added.items() if address in seconds}
    routes = [
        *_routes(first, setup.networks, kernel),
        *_routes(second, setup.alternate_networks, kernel, f" metric {_SECOND_METRIC}"),
    ]
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
    label = f" label {interface}:lease" if len(interface) + len(":lease") <= _LONGEST_LABEL else ""
    return f"{address}/32 dev {interface}{label} {lifetime}"


def _routes(devices: Mapping[str, str], networks: Sequence[str], kernel: Any, metric: str = "") -> list[str]:
    """Missing routes to ranks elsewhere on the link. None with several interfaces: each fits only some.

    First and second addresses have their own. Second ones that are there already have what who added them wants.

    Raises:
        HostError: one would take addresses from another interface, which may be that of management.
    """
    if len(set(devices.values())) != 1:
        return []
    source, interface = next(iter(devices.items()))
    is_v6 = ":" in source
    known = kernel.routed_prefixes(interface, is_v6=is_v6)
    wanted = [ip_network(network) for network in networks]
    missing = [
        network
        for network in wanted
        if not network.is_loopback and not any(one.version == network.version and _is_in(network, one) for one in known)
    ]
    elsewhere = kernel.prefixes_elsewhere(interface, is_v6=is_v6, protocol=_ROUTE_PROTOCOL) if missing else {}
    for network in missing:
        for prefix, other in elsewhere.items():
            if network.version == prefix.version and _is_in(network, prefix):
                raise HostError(
                    f"the run has a route to {network}, which this machine reaches through {other}: choose other "
                    f"addresses, or add the route to {interface} by hand"
                )
    more = f"{metric} expires {LEASE_S}" if is_v6 else f" scope link{metric}"
    return [f"{network} dev {interface} src {source} proto {_ROUTE_PROTOCOL}{more}" for network in missing]


def _is_in(inner: iproute.Prefix, outer: iproute.Prefix) -> bool:
    return inner.prefixlen >= outer.prefixlen and inner.network_address in outer


def _length(address: str) -> int:
    return 128 if ":" in address else 32


async def _renew(lease: _Lease, kernel: Any) -> None:
    while lease.keep:
        await asyncio.sleep(LEASE_S / 3)
        with contextlib.suppress(HostError):  # the addresses stay valid for two more attempts
            await asyncio.to_thread(kernel.change, lease.keep)
