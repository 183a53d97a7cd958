"""Values of messages that are checked as a message is decoded: addresses and prefixes, of which nothing but numbers
may reach a host's commands and sockets, and numbers of which only some make sense.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Annotated, TypeAlias, TypeVar


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


NumericAddress: TypeAlias = Annotated[str, numeric_address]
NumericPrefix: TypeAlias = Annotated[str, numeric_prefix]


N = TypeVar("N", int, float)


def share(value: float) -> float:
    """A part of a whole; ValueError if it is not from 0 to 1."""
    if not 0 <= value <= 1:
        raise ValueError(f"{value:g} is not a share from 0 to 1")
    return value


def not_negative(value: N) -> N:
    """ValueError if it is negative."""
    if value < 0:
        raise ValueError(f"{value:g} is negative")
    return value


Share: TypeAlias = Annotated[float, share]
Amount: TypeAlias = Annotated[float, not_negative]
Count: TypeAlias = Annotated[int, not_negative]
