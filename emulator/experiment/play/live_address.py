"""The address that the live page of a run is served at."""

from __future__ import annotations

from ipaddress import ip_address
from typing import NamedTuple

from emulator.units import digits

LOCAL = "127.0.0.1"


class LiveAddress(NamedTuple):
    """Address and port that the live page is served at; port 0: any free one."""

    address: str = LOCAL
    port: int = 0

    @property
    def host(self) -> str:
        """The address as URLs write it."""
        return f"[{self.address}]" if ":" in self.address else self.address


def parse_live_address(text: str) -> LiveAddress:
    """`8080`, or with an address of this host: `0.0.0.0:8080`, `[::]:8080`.

    Raises:
        ValueError: neither.
    """
    problem = f"{text!r}: give a port or an address and a port, such as 8080 or 0.0.0.0:8080 (put TRACE before --live)"
    address, _, port = text.rpartition(":")
    if (number := digits(port)) is None or number > 65_535:
        raise ValueError(problem)
    try:
        return LiveAddress(str(ip_address(address.strip("[]"))) if address else LOCAL, number)
    except ValueError:
        raise ValueError(problem) from None
