"""Addresses of a peer and of this host towards it."""

from __future__ import annotations

import ipaddress
import socket

from emulator.errors import HostError, InputError
from emulator.roce.constants import UDP_PORT


def resolved(host: str) -> str:
    """The numeric address of a host.

    Raises:
        InputError: there is no such host.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise InputError(f"{host}: no such host") from error
    return str(ipaddress.ip_address(found[0][4][0]))


def address_towards(host: str) -> str:
    """The address that this host uses towards another one.

    Raises:
        HostError: there is no route.
    """
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, UDP_PORT))
        except OSError as error:
            raise HostError(f"there is no route to {host} ({error.strerror})") from error
        return str(probe.getsockname()[0])
