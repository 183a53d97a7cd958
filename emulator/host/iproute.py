"""The `ip` command: addresses, routes, and the interface through which a packet would leave.

pyroute2 could do the same in this process, but would add to the memory and start-up time of every agent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, TypeAlias

from emulator.errors import HostError
from emulator.host.tools import CommandBatch, finished, refusal

FOREVER_S = 0xFFFFFFFF
"""An unlimited lifetime in the kernel's notation."""
_LIMIT_S = 30.0
Prefix: TypeAlias = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class HeldAddress:
    """An address that an interface has; `lifetime_s`: the rest of its lifetime."""

    address: str
    prefix_length: int
    lifetime_s: int

    @property
    def is_permanent(self) -> bool:
        """Whether it never expires: it was configured by hand."""
        return self.lifetime_s == FOREVER_S


def is_up(interface: str) -> bool:
    """Whether the interface is administratively up.

    Raises:
        HostError: the interface does not exist.
    """
    found = _ask("link", "show", "dev", interface)
    if not found:
        raise HostError(f"there is no interface {interface} on this host: `ip link` lists the interfaces")
    return "UP" in found[0].get("flags", [])


def held_addresses(interface: str) -> dict[str, HeldAddress]:
    """Addresses of an interface, by address."""
    entries = [entry for link in _ask("address", "show", "dev", interface) for entry in link.get("addr_info", [])]
    return {
        entry["local"]: HeldAddress(entry["local"], entry["prefixlen"], entry["valid_life_time"])
        for entry in entries
        if "local" in entry
    }


def holders() -> dict[str, str]:
    """Address → the interface that has it, for all interfaces."""
    return {
        entry["local"]: link["ifname"]
        for link in _ask("address", "show")
        for entry in link.get("addr_info", [])
        if "local" in entry
    }


def routed_prefixes(interface: str, *, is_v6: bool) -> list[Prefix]:
    """Destinations that the main table sends through an interface."""
    default = "::/0" if is_v6 else "0.0.0.0/0"
    routes = _ask("-6" if is_v6 else "-4", "route", "show", "dev", interface)
    return [ip_network(default if route["dst"] == "default" else route["dst"]) for route in routes]


def prefixes_elsewhere(interface: str, *, is_v6: bool, protocol: int) -> dict[Prefix, str]:
    """Destination → interface of what the main table sends through other interfaces.

    Args:
        interface: the one that does not count.
        is_v6: of which version of IP.
        protocol: number of the routing protocol whose routes do not count, nor do default routes.
    """
    return {
        ip_network(route["dst"]): route["dev"]
        for route in _ask("-6" if is_v6 else "-4", "route", "show")
        if route["dst"] != "default" and route.get("dev", interface) != interface
        if route.get("protocol") != str(protocol)
    }


def egress_interface(address: str) -> str | None:
    """The interface through which packets to an address leave; None if there is no route."""
    found = _ask("route", "get", address)
    return found[0].get("dev") if found else None


def change(commands: Sequence[str], *, goes_on: bool = False) -> None:
    """Run `ip` commands in order, in one process.

    Args:
        commands: without `ip`.
        goes_on: continue silently after those that fail.

    Raises:
        HostError: one failed; the message names it.
    """
    if not commands:
        return
    options = ["-force"] if goes_on else []
    batch = CommandBatch(("ip", *options, "-batch", "-"), commands, _LIMIT_S)
    done = finished(batch)
    if done.returncode and not goes_on:
        raise HostError(f"{refusal(batch, done.stderr)}: run the agent as root or with CAP_NET_ADMIN")


def _ask(*words: str) -> list[Any]:
    """What `ip` lists; empty if it refuses.

    Raises:
        HostError: there is no `ip` command, or it does not answer.
    """
    done = finished(CommandBatch(("ip", "-json", *words), limit_s=_LIMIT_S))
    return [] if done.returncode else [entry for entry in json.loads(done.stdout or "[]") if entry]
