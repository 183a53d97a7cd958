"""Addresses that traffic may be sent to unless the user allows more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TypeAlias

from emulator.errors import InputError

Network: TypeAlias = IPv4Network | IPv6Network

SAFE_NETWORKS: Sequence[Network] = tuple(
    map(
        ip_network,
        (
            "127.0.0.0/8",
            "::1/128",
            "198.18.0.0/15",  # RFC 2544: benchmarking
            "192.0.2.0/24",  # RFC 5737: documentation, with the next two
            "198.51.100.0/24",
            "203.0.113.0/24",
            "2001:db8::/32",  # RFC 3849: documentation
            "3fff::/20",  # RFC 9637: documentation
            "10.0.0.0/8",  # RFC 1918: private, with the next two
            "172.16.0.0/12",
            "192.168.0.0/16",
            "fc00::/7",  # RFC 4193: unique local
        ),
    )
)
SAFE_NETWORKS_IN_WORDS = "loopback, 198.18.0.0/15, documentation and private ranges"


def numeric_address(text: str) -> str:
    """The usual spelling of an address without a zone; ValueError if it is none."""
    return str(ip_address(_without_zone(text)))


def numeric_prefix(text: str) -> str:
    """The usual spelling of a prefix; ValueError if it is none."""
    return str(ip_network(_without_zone(text)))


def _without_zone(text: str) -> str:
    if "%" in text:  # whatever follows it, ipaddress takes
        raise ValueError(f"{text!r} has a zone")
    return text


def parse_networks(texts: Iterable[str], option: str = "--allow-network") -> list[Network]:
    """Prefixes, as given to an option.

    Raises:
        InputError: not a prefix.
    """
    networks: list[Network] = []
    for text in texts:
        try:
            networks.append(ip_network(numeric_prefix(text)))
        except ValueError as error:
            raise InputError(f"{option} {text!r}: {error}; write a prefix such as 192.0.2.0/24") from error
    return networks


def is_safe(network: Network, allowed: Iterable[Network] = ()) -> bool:
    """Whether traffic may be sent to every address of a network; never to multicast or unspecified addresses."""
    if network.is_multicast or network.is_unspecified:
        return False
    return any(contains(outer, network) for outer in (*SAFE_NETWORKS, *allowed))


def unsafe_problem(network: Network) -> str:
    """The error message for a network that is not safe."""
    shown = network if network.num_addresses > 1 else network.network_address
    return f"{shown} is outside {SAFE_NETWORKS_IN_WORDS}: name its prefix with --allow-network"


def contains(outer: Network, inner: Network) -> bool:
    """Whether every address of `inner` is in `outer`."""
    if isinstance(outer, IPv4Network) and isinstance(inner, IPv4Network):
        return inner.subnet_of(outer)
    return isinstance(outer, IPv6Network) and isinstance(inner, IPv6Network) and inner.subnet_of(outer)
