"""GIDs of RoCEv2: an IPv6 address as it is, an IPv4 address mapped."""

from __future__ import annotations

import ipaddress


def gid_of(host: str) -> bytes:
    """The GID of a numeric address, 16 bytes."""
    address = ipaddress.ip_address(host)
    return address.packed if address.version == 6 else bytes(10) + b"\xff\xff" + address.packed


def address_of_gid(gid: bytes) -> str:
    """The address of a GID."""
    address = ipaddress.IPv6Address(gid)
    return str(address.ipv4_mapped or address)
